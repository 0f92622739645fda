"""A bench in the forms that other tools read: Hugging Face datasets, VLMEvalKit, lmms-eval, JSONL."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import atomic_directory, write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.config import ExportConfig
from panendofm.vqa.bench.items import write_items
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml
from panendofm.vqa.reply_kinds import CHOICE

PARQUET = "data/test-00000-of-00001.parquet"
# Columns of the TSV beside those that VLMEvalKit needs; with them an import gives the same bench again.
EXTRA = ("id", "subtask", "scene", "prompt_kind", "group", "sha256", "natural_order", "entity")


def export_bench(bench: Bench, config: ExportConfig) -> None:
    """Write the bench to the folder `out`, which must not exist."""
    with atomic_directory(config.out) as folder:
        FORMS[config.form](bench, folder)


def _images(bench: Bench) -> dict[str, bytes]:
    return {item.image: bench.image(item) for item in bench.items if item.image}


def _choices(bench: Bench) -> Bench:
    """What tools for multiple-choice questions can ask."""
    return replace(bench, items=[item for item in bench.items if item.kind == CHOICE.name])


def _huggingface(bench: Bench, folder: Path) -> None:
    (folder / "data").mkdir()
    write_items(bench.items, folder / PARQUET, _images(bench))
    manifest = bench.manifest
    licenses = "\n".join(f"- {name}: {license_}" for name, license_ in manifest.licenses.items())
    counts = "\n".join(f"| {task} | {n} |" for task, n in manifest.counts["task"].items())
    write_text(
        folder / "README.md",
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*\n---\n"
        f"# {manifest.name}\n\n{len(bench.items)} questions about {manifest.images} images; "
        f"reviewed by physicians: {manifest.reviewed}.\n\n| task | questions |\n|---|---|\n{counts}\n\n"
        f"## Licenses of the images\n\n{licenses or '- unknown'}\n",
    )


def tsv_rows(bench: Bench) -> list[dict[str, str]]:
    """One row a question, as VLMEvalKit reads them; columns of an imported file come back as they were."""
    letters = LETTERS[: max(len(item.options) for item in bench.items)]
    rows = []
    for number, item in enumerate(bench.items):
        other: dict[str, str] = json.loads(item.other) if item.other else {}
        row = {"index": other.pop("index", str(number))}
        row["image"] = base64.b64encode(bench.image(item)).decode() if item.image else ""
        row["question"] = item.question
        row |= dict(zip(letters, [*item.options, *[""] * len(letters)], strict=False))
        row |= {"answer": item.answer, "category": item.task, "l2-category": item.category, "dataset": item.dataset}
        row |= {name: _text(getattr(item, name)) for name in EXTRA}
        rows.append({**row, **other})
    return rows


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _vlmevalkit(bench: Bench, folder: Path) -> None:
    rows = tsv_rows(_choices(bench))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[row.get(name, "") for name in columns] for row in rows]
    # VLMEvalKit shows the cells to models as they stand.
    write_text(folder / f"{bench.manifest.name}.tsv", csv_text(columns, lines, delimiter="\t", verbatim=True))


def _lmms_eval(bench: Bench, folder: Path) -> None:
    (folder / "data").mkdir()
    choices = _choices(bench)
    write_items(choices.items, folder / PARQUET, _images(choices))
    name = "".join(c if c.isalnum() else "_" for c in bench.manifest.name)
    texts = read_package_yaml("templates", "lmms_eval.yaml")
    write_text(folder / f"{name}.yaml", texts["task"].format(name=name, parquet=PARQUET))
    write_text(folder / "utils.py", texts["utils"])


def _jsonl(bench: Bench, folder: Path) -> None:
    for name, content in sorted(_images(bench).items()):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    lines = [json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in bench.items]
    write_text(folder / "items.jsonl", "".join(lines))


FORMS: dict[str, Callable[[Bench, Path], None]] = {
    "huggingface": _huggingface,
    "vlmevalkit": _vlmevalkit,
    "lmms-eval": _lmms_eval,
    "jsonl": _jsonl,
}
