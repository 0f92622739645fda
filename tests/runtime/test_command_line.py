"""Every stage's command line: what the words mean, and what a mistake looks like to the person who typed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# A stage as its author writes it, run as a real process.
STAGE = """
import argparse
from dataclasses import dataclass
from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.config import option, required, save_config
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError

@dataclass
class Config:
    out: str = required("Folder to write to.")
    count: int = option("How many.", 3)

def write(inputs: list[str], config: Config, fast: bool) -> None:
    save_config(config, f"{config.out}/config.yaml")
    say(f"wrote {inputs} fast={fast}")

def crash(where: str | None) -> None:
    raise ValueError("a defect")

def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="Skip the checks.")

run_stage(Stage("python -m stage", [
    Command("write", "Writes things.", write, ("INPUTS…",), Config, flags),
    Command("crash", "Fails.", crash, ("[WHERE]",)),
], extra="data"))
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stage") / "stage.py"
    path.write_text(STAGE)
    return path


def run(stage: Path, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, str(stage), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=stage.parent, timeout=60, check=False)


def assert_one_sentence(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert result.returncode == 2, result
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0]


def test_words_are_told_apart_in_any_order(stage: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("count: 5\n")
    result = run(stage, "write", f"out={tmp_path}/o", "a", "--fast", str(tmp_path / "c.yaml"), "b", "count=7")
    assert result.returncode == 0, result.stderr
    assert "wrote ['a', 'b'] fast=True" in result.stdout
    assert "count: 7" in result.stdout.split("resolved configuration:")[1]
    assert "count: 7" in (tmp_path / "o" / "config.yaml").read_text()


def test_a_misspelt_key(stage: Path, tmp_path: Path) -> None:
    assert_one_sentence(run(stage, "write", "a", f"out={tmp_path}", "cuont=1"), "'cuont'", "did you mean 'count'?")


def test_a_wrong_type(stage: Path, tmp_path: Path) -> None:
    assert_one_sentence(run(stage, "write", "a", f"out={tmp_path}", "count=many"), "'count'", "int", "many")


def test_a_missing_value_and_a_missing_argument(stage: Path) -> None:
    assert_one_sentence(run(stage, "write", "a"), "'out'", "Folder to write to")
    assert_one_sentence(run(stage, "write", "out=x"), "INPUTS is missing")


def test_a_missing_file(stage: Path) -> None:
    assert_one_sentence(run(stage, "write", "a", "nowhere.yaml"), "nowhere.yaml", "does not exist")


def test_an_unknown_verb_option_and_extra_word(stage: Path) -> None:
    assert_one_sentence(run(stage, "wirte"), "did you mean 'write'?")
    assert_one_sentence(run(stage, "write", "a", "--fsat"), "--fsat")
    assert_one_sentence(run(stage, "crash", "here", "there"), "'there' was not expected")
    assert_one_sentence(run(stage, "write", "a", "b.yaml", "c.yaml"), "two configs")


def test_a_key_written_as_an_option(stage: Path, tmp_path: Path) -> None:
    assert_one_sentence(run(stage, "write", "a", "--out", str(tmp_path)), "write out=VALUE instead of --out.")
    assert_one_sentence(run(stage, "write", "a", "out=x", "--count=5"), "write count=5 instead of --count.")


def test_a_read_only_output_folder(stage: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    # The superuser may write anywhere: take that privilege away, so that the test means the same for everyone.
    prefix = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    result = run(stage, "write", "a", f"out={locked}", prefix=prefix)
    assert_one_sentence(result, str(locked / "config.yaml"), "permission denied", "choose a folder")
    assert list(locked.iterdir()) == []


def test_a_defect_keeps_its_traceback(stage: Path) -> None:
    result = run(stage, "crash")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert "ValueError: a defect" in result.stderr


def test_help_lists_verbs_keys_types_defaults_and_explanations(stage: Path) -> None:
    verbs = run(stage, "--help")
    assert verbs.returncode == 0
    assert "write  Writes things." in verbs.stdout
    text = run(stage, "write", "--help").stdout
    for part in ("INPUTS…", "--fast", "Skip the checks.", "out  (str, required)", "count  (int, 3)", "How many."):
        assert part in text


def test_a_reader_that_leaves_early_is_no_error(stage: Path, tmp_path: Path) -> None:
    script = f"set -o pipefail; {sys.executable} {stage} write a out={tmp_path}/o | true"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in result.stderr
