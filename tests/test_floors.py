"""What holds for the packages as a whole: who owns names and formats, and that everything is shipped."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.snapshot import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
# Parts of names and formats that stages leave for one another. Only records/ may spell them out.
OWNED = re.compile(
    r"step_\{|step_\d|step_\*|checkpoint\.json|\.distcp|^\.metadata$|metrics\.jsonl|log\.txt|run\.json|roll_backs\.json|rolled_back"
    r"|non_finite\.json|^best$|^checkpoints$|^eval$|knn_selection|^knn_|patches_|manifest\.(json|parquet)"
    r"|examples\.parquet|SHA256SUMS|index\.json|^shard-|sources\.parquet|release\.json|^config\.yaml$|/config\.yaml"
)
# Other documents that happen to have a part of such a name.
NOT_OURS = {
    ("runtime/files.py", "SHA256SUMS"),  # the common name of checksum files, as a default
    ("data_pipeline/synthesize/corpus.py", "SHA256SUMS"),  # of a corpus, which is no shard set
    # A bench of questions and a folder of answers, which vqa alone writes and reads.
    ("vqa/bench/items.py", "manifest.json"),
    ("vqa/bench/items.py", "SHA256SUMS"),
    ("vqa/client/answers.py", "run.json"),
    ("vqa/client/run.py", "log.txt"),
    ("vqa/score/lesion_examples.py", "best"),  # of three examples
    ("launch/doctor/neighbours.py", "knn_8class.npz"),  # numbers of the reference implementation
}


def sources() -> list[Path]:
    return sorted(
        path
        for package in PACKAGES
        if package != "records"
        for path in (ROOT / package).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def strings_of(path: Path) -> Iterator[str]:
    """Texts in the code, the fixed parts of f-strings with `{` for what is filled in; docstrings are prose."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in prose or id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_search_sees_names_in_all_forms(tmp_path: Path) -> None:
    """Else the next test could pass for having looked at nothing."""
    for text in ('x = f"step_{n:07d}"', 'x = folder / "best"', 'open(run + "/metrics.jsonl")', 'glob("step_*")'):
        (tmp_path / "a.py").write_text(text)
        assert any(OWNED.search(string) for string in strings_of(tmp_path / "a.py")), text
    (tmp_path / "a.py").write_text('"""Reads metrics.jsonl."""\nx = "best of all"')
    assert not any(OWNED.search(string) for string in strings_of(tmp_path / "a.py"))


def test_only_records_knows_names_and_formats() -> None:
    assert len(sources()) > 150
    offences = []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        is_help = {string for string in strings_of(path) if " " in string.strip()}  # sentences for people
        offences += [
            f"{name}: {string!r}"
            for string in strings_of(path)
            if OWNED.search(string) and string not in is_help and (name, string) not in NOT_OURS
        ]
    assert not offences, "\n".join(offences)


def test_every_package_is_shipped_checked_and_on_a_floor() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    shipped = {pattern.removesuffix("*") for pattern in project["setuptools"]["packages"]["find"]["include"]}
    assert shipped == set(PACKAGES)
    assert packages <= shipped
    assert packages == set(project["mypy"]["packages"])
    assert packages == set(project["importlinter"]["root_packages"])
    layers = project["importlinter"]["contracts"][0]["layers"]
    assert packages == {name.strip() for layer in layers for name in layer.split("|")}


@pytest.mark.parametrize("package", ["records", "scoring", "atlas", "runtime"])
def test_lower_floors_come_without_torch(package: str) -> None:
    """import-linter sees statements; this sees what is really loaded."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / package).glob("*.py")
        if path.stem != "__main__"
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
