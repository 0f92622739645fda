"""Answer files of other evaluators, read and written: VLMEvalKit's predictions and lmms-eval's samples.

Both hold one reply to each multiple-choice question as the bench states it. Rows name the question by the `id` that our
exports carry, else by its number among the multiple-choice questions.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text, read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import parse_json, read_json_lines, read_text, write_text
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.exports import tsv_rows
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import Answer, AnswerSet, Run, Variant, read_answer_set, write_answers
from panendofm.vqa.client.config import ConvertConfig
from panendofm.vqa.reply_kinds import CHOICE, Parser

FOREIGN = "converted"  # how the run says that others asked
Replies = dict[str, str]  # by question


def convert_answers(bench: Bench, path: Path, config: ConvertConfig) -> None:
    """Foreign answers become ours; ours become those of `form`."""
    items = [item for item in bench.items if item.kind == CHOICE.name]
    if config.form == "answers":
        name = config.name or path.stem
        replies = read_foreign(path, items)
        run = Run(bench.checksum, name, bench=bench.manifest.name, endpoint=FOREIGN, model=name)
        write_answers(Path(config.out), run, [Answer(id_, Variant(), name, text) for id_, text in replies.items()])
        say(f"{len(replies)} of {len(items)} questions have a reply → {config.out}")
        return
    own = read_answer_set(path, bench, allow_partial=True)
    write_text(Path(config.out), WRITERS[config.form](bench, own))
    say(f"{config.form} → {config.out}")


def read_foreign(path: Path, items: list[Item]) -> Replies:
    """The replies by question; the form is told by the file's ending."""
    if path.suffix == ".xlsx":
        raise UserError(f"{path}: Excel files are not read; let VLMEvalKit write text with PRED_FORMAT=tsv.")
    rows = _samples(path) if path.suffix == ".jsonl" else _predictions(path)
    by_number = {number: item.id for number, item in enumerate(items)}
    known = {item.id for item in items}
    indexes = _indexes(items)
    found: Replies = {}
    for where, id_, number, index, reply in rows:
        name = id_ if id_ in known else indexes.get(index, "") or by_number.get(number, "")
        if not name:
            raise UserError(f"{where}: the bench has no such question; these are answers to another one.")
        if name in found:
            raise UserError(f"{where}: question {name} has two replies; remove one.")
        found[name] = reply
    if not found:
        raise UserError(f"{path}: it holds no reply.")
    return found


def _indexes(items: list[Item]) -> dict[str, str]:
    """Of an imported bench: the index that each question had in its file."""
    return {str(json.loads(item.other)["index"]): item.id for item in items if item.other and "index" in item.other}


Row = tuple[str, str, int, str, str]  # where it stands, id, number, index, reply


def _predictions(path: Path) -> Iterable[Row]:
    """VLMEvalKit: a table with index, the columns of its TSV, and prediction."""
    if path.suffix == ".json":
        rows = parse_json(read_text(path), path)
        if not isinstance(rows, list):
            raise UserError(f"{path}: predictions are a list of objects with index and prediction.")
    else:
        usual = csv.field_size_limit(sys.maxsize)  # images may be fields
        try:
            rows = read_csv(path, ("index", "prediction"), delimiter="\t" if path.suffix == ".tsv" else ",")
        finally:
            csv.field_size_limit(usual)
    for line, row in enumerate(rows, 1):
        where = f"{path}, row {line}"
        if not isinstance(row, dict) or row.get("index") is None or row.get("prediction") is None:
            raise UserError(f"{where}: a prediction needs index and prediction.")
        index = str(row["index"])
        number = int(index) if index.isdigit() else -1
        yield where, str(row.get("id") or ""), number, index, str(row["prediction"])


def _samples(path: Path) -> Iterable[Row]:
    """lmms-eval: one line a sample, with doc_id, doc, and the replies before and after its filters."""
    for line, row in enumerate(read_json_lines(path), 1):
        where = f"{path}, line {line}"
        reply: Any = row.get("filtered_resps") or row.get("resps")
        while isinstance(reply, list) and reply:
            reply = reply[0]
        if not isinstance(reply, str) or not isinstance(row.get("doc_id"), int):
            raise UserError(f"{where}: a sample of lmms-eval needs doc_id and a reply in filtered_resps or resps.")
        doc = row.get("doc")
        id_ = str(doc.get("id") or "") if isinstance(doc, dict) else ""
        yield where, id_, int(row["doc_id"]), "", reply


# ------------------------------------------------------------------------------------------ written


def _plain(bench: Bench, own: AnswerSet) -> list[tuple[int, Item, str]]:
    """Number, question and reply of every multiple-choice question that was answered as stated."""
    items = [item for item in bench.items if item.kind == CHOICE.name]
    variant = Variant(prompt=own.prompt)
    found = []
    for number, item in enumerate(items):
        answer = own.answers.get((item.id, variant))
        if answer is not None and answer.error is None:
            found.append((number, item, answer.response))
    return found


def _as_predictions(bench: Bench, own: AnswerSet) -> str:
    choices = replace(bench, items=[item for item in bench.items if item.kind == CHOICE.name])
    rows = tsv_rows(choices)
    columns = [name for name in rows[0] if name != "image"]
    lines = [[*(rows[number].get(name, "") for name in columns), reply] for number, _, reply in _plain(bench, own)]
    return csv_text([*columns, "prediction"], lines, delimiter="\t", verbatim=True)


def _as_samples(bench: Bench, own: AnswerSet) -> str:
    lines = []
    for number, item, reply in _plain(bench, own):
        doc = {"id": item.id, "question": item.question, "options": list(item.options), "answer": item.answer}
        right = float(CHOICE.read(item, own.answers[item.id, Variant(prompt=own.prompt)], Parser()).right)
        sample = {
            "doc_id": number,
            "doc": doc,
            "target": item.answer,
            "resps": [[reply]],
            "filtered_resps": [reply],
            "accuracy": right,
        }
        lines.append(json.dumps(sample, ensure_ascii=False) + "\n")
    return "".join(lines)


WRITERS: dict[str, Callable[[Bench, AnswerSet], str]] = {"vlmevalkit": _as_predictions, "lmms-eval": _as_samples}
