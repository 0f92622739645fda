"""What holds for the packages as a whole: what is shipped, who may import what, who owns names, how fast help comes."""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from launch.jobs.snapshot import PACKAGES
from panendofm.__main__ import ENTRIES
from panendofm.runtime.command_line import Stage

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("data_pipeline", "eval_knn", "launch", "pretrain")
# `--help` and mistakes on the command line do without these.
HEAVY = (
    *(
        "torch",
        "torchvision",
        "ray",
        "transformers",
        "timm",
        "faiss",
        "matplotlib",
        "scipy",
        "sklearn",
        "pandas",
        "cv2",
    ),
    *("av", "onnx", "onnxruntime", "wandb", "submitit", "pyarrow"),
)
MOST_MODULES = 15
# Parts of names and formats that stages leave for one another. Only panendofm/records/ may spell them out.
OWNED = re.compile(
    r"step_\{|step_\d|step_\*|checkpoint\.json|\.distcp|^\.metadata$|metrics\.jsonl|log\.txt|run\.json|rolled_back"
    r"|non_finite\.json|^best$|^checkpoints$|^eval$|knn_selection|^knn_|patches_|manifest\.(json|parquet)"
    r"|examples\.parquet|SHA256SUMS|index\.json|^shard-|sources\.parquet|release\.json|^config\.yaml$|/config\.yaml"
)
# Other documents that happen to have a part of such a name.
NOT_OURS = {
    ("panendofm/runtime/files.py", "SHA256SUMS"),  # the common name of checksum files, as a default
    ("panendofm/synthetic/corpus.py", "SHA256SUMS"),  # of a corpus, which is no shard set
    # A bench of questions and a folder of answers, which vqa alone writes and reads.
    ("panendofm/vqa/bench/bench_folder.py", "manifest.json"),
    ("panendofm/vqa/bench/bench_folder.py", "SHA256SUMS"),
    ("panendofm/vqa/client/answers.py", "run.json"),
    ("panendofm/vqa/client/run.py", "log.txt"),
    ("launch/doctor/neighbors.py", "knn_8class.npz"),  # numbers of the reference implementation
}


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the product, parsed: its path → its tree."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def strings_of(tree: ast.Module) -> Iterator[str]:
    """Texts in the code, the fixed parts of f-strings with `{` for what is filled in; docstrings are prose."""
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


def test_the_search_sees_names_in_all_forms() -> None:
    """Else the next test could pass for having looked at nothing."""
    for text in ('x = f"step_{n:07d}"', 'x = folder / "best"', 'open(run + "/metrics.jsonl")', 'glob("step_*")'):
        assert any(OWNED.search(string) for string in strings_of(ast.parse(text))), text
    assert not any(
        OWNED.search(text) for text in strings_of(ast.parse('"""Reads metrics.jsonl."""\nx = "best of all"'))
    )


def test_only_records_knows_names_and_formats() -> None:
    assert len(sources()) > 400
    offences = [
        f"{name}: {string!r}"
        for name, tree in sources().items()
        if not name.startswith("panendofm/records/")
        for string in strings_of(tree)
        # A string with a space is a sentence for people.
        if OWNED.search(string)
        and " " not in string.strip()
        and (name, string) not in NOT_OURS
        # The group of dependencies that a stage names.
        and not (name.endswith("__main__.py") and string == "eval")
    ]
    assert not offences, "\n".join(offences)


def test_every_package_is_shipped_checked_and_on_a_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks", "experiments"}
    assert packages == {*STAGES, "panendofm"} == set(PACKAGES)
    assert packages == {pattern.removesuffix("*") for pattern in project["setuptools"]["packages"]["find"]["include"]}
    assert packages == set(project["mypy"]["packages"]) == set(project["importlinter"]["root_packages"])
    listed = {name.strip() for layer in project["importlinter"]["contracts"][0]["layers"] for name in layer.split("|")}
    parts = {f"panendofm.{path.parent.name}" for path in ROOT.glob("panendofm/*/__init__.py")}
    assert listed - {"panendofm.__main__", "panendofm.api"} == {*STAGES, *parts}
    inside = {path.parent.name for path in ROOT.glob("pretrain/*/__init__.py")}
    assert inside <= set(project["importlinter"]["contracts"][1]["layers"])


def test_no_folder_is_large() -> None:
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")}
    counts = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_MODULES} == {}


def unit_of(module: str) -> str | None:
    """The package that a module belongs to: a stage, or a part of the library."""
    parts = module.split(".")
    if parts[0] in STAGES:
        return parts[0]
    return ".".join(parts[:2]) if parts[0] == "panendofm" and len(parts) > 1 else None


@cache
def public_names(package: str) -> frozenset[str]:
    """What a package's `__init__.pyi` lists: names, and sub-packages or modules that are public as a whole."""
    stub = ROOT / package.replace(".", "/") / "__init__.pyi"
    if not stub.is_file():
        return frozenset()
    (listed,) = (
        node.value
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )
    return frozenset(ast.literal_eval(listed))


# Sub-packages with a list of their own, public beside that of their package.
PUBLIC_PARTS = {"panendofm.backbone.networks", "panendofm.backbone.release", "panendofm.backbone.visualize"}
PUBLIC_PARTS |= {"pretrain.selftest", "panendofm.imaging.leakage"}


def is_public(module: str, name: str) -> bool:
    package = module
    while package not in PUBLIC_PARTS and "." in package and not public_names(package):
        package = package.rpartition(".")[0]
    if package == module:
        return name in public_names(package)
    # `from panendofm.runtime.files import x`: the module is listed, and what has no underscore is public.
    return module.removeprefix(f"{package}.").split(".")[0] in public_names(package) and not name.startswith("_")


def test_other_packages_import_only_public_names() -> None:
    assert is_public("panendofm.runtime.files", "atomic_file") and is_public("panendofm.backbone", "load_backbone")
    assert not is_public("panendofm.backbone.weights.load", "load_backbone")
    assert not is_public("panendofm.runtime.files", "_private") and not is_public("pretrain.train", "pretrain")
    offences = []
    for name, tree in sources().items():
        own = unit_of(name.removesuffix(".py").replace("/", "."))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            other = unit_of(node.module)
            if other in (None, own) or own is None:
                continue
            offences += [f"{name}: {node.module}.{a.name}" for a in node.names if not is_public(node.module, a.name)]
    assert not offences, "\n".join(offences)


def test_no_public_name_is_also_a_module() -> None:
    """Which of the two an import gives would depend on what was imported before."""
    for stub in (path for package in PACKAGES for path in (ROOT / package).rglob("__init__.pyi")):
        tree = ast.parse(stub.read_text(encoding="utf-8"))
        names = {a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module for a in n.names}
        modules = {path.stem for path in stub.parent.iterdir()}
        assert not names & modules, stub


@pytest.mark.parametrize("part", ["records", "scoring", "atlas", "runtime", "imaging", "reports", "challenge"])
def test_files_are_scored_without_torch(part: str) -> None:
    """import-linter sees statements; this sees what is really loaded."""
    folder = ROOT / "panendofm" / part
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if path.stem not in ("__main__", "__init__")
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def stages() -> dict[str, Stage]:
    return {name: entry.stage() for name, entry in ENTRIES.items()}


def asked(*lines: list[str]) -> list[dict[str, object]]:
    """Each command line in a process forked from one that has imported nothing of ours: code, output, heavy modules."""
    script = f"""
import contextlib, io, json, os, runpy, sys
for words in json.loads(sys.argv[1]):
    reader, writer = os.pipe()
    if os.fork() == 0:
        sys.argv = ["panendofm", *words]
        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                runpy.run_module("panendofm", run_name="__main__")
            except SystemExit as end:
                code = end.code or 0
        heavy = [name for name in {HEAVY!r} if name in sys.modules]
        with os.fdopen(writer, "w") as stream:
            json.dump({{"words": words, "code": code, "out": out.getvalue(), "heavy": heavy}}, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        print(stream.read())
    os.wait()
"""
    command = [sys.executable, "-c", script, json.dumps(lines)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ))
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_help_of_every_verb_answers_without_heavy_packages() -> None:
    lines = [["--help"], ["--version"]]
    for name, stage in stages().items():
        lines += [[name, *([command.name] if command.name else []), "--help"] for command in stage.commands]
    assert len(lines) > 50
    for answer in asked(*lines):
        assert answer["code"] == 0, answer
        assert answer["heavy"] == [], (answer["words"], answer["heavy"])
        assert "panendofm" in str(answer["out"])


def test_mistakes_on_the_command_line_are_found_without_heavy_packages() -> None:
    lines = [["pretrain", "batch.image=3"], ["eval-knn", "--wach", "x"], ["vqa", "aks"], ["prob"]]
    for answer in asked(*lines):
        assert answer["code"] == 2, answer
        assert answer["heavy"] == [], (answer["words"], answer["heavy"])
        assert str(answer["out"]).startswith("error: ") and str(answer["out"]).count("\n") == 1


def test_every_handler_and_schema_is_where_it_is_said_to_be() -> None:
    for name, stage in stages().items():
        for command in stage.commands:
            assert callable(command.handler()), (name, command.name)
            command.schema_class()


def test_every_extra_that_a_stage_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {stage.extra for stage in stages().values()} <= set(project["optional-dependencies"])
    assert not {"ray", "wandb", "submitit"} & {re.split(r"[<>=;]", need)[0] for need in project["dependencies"]}


def test_the_lock_names_every_dependency() -> None:
    """Else `make setup`, which resolves nothing, leaves it out, and only a machine that has it by chance works."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "cuda"}
    needs = [*project["dependencies"], *(need for extra in extras.values() for need in extra)]
    wanted = {canonical_name(re.split(r"[<>=;\[]", need)[0]) for need in needs} - {"panendofm"}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {canonical_name(line.split("==")[0]) for line in lock if "==" in line}
    assert wanted - locked == set()


def canonical_name(package: str) -> str:
    return package.strip().lower().replace("_", "-")


def test_every_handler_takes_the_words_keys_and_flags_of_its_command() -> None:
    for name, stage in stages().items():
        for command in stage.commands:
            parser = argparse.ArgumentParser()
            if command.options is not None:
                command.options(parser)
            flags = dict.fromkeys(vars(parser.parse_args([])))
            words = [None] * (len(command.arguments) + (command.schema is not None))
            inspect.signature(command.handler()).bind(*words, **flags)  # raises TypeError where they do not fit
            assert callable(command.handler()), name
