"""A run folder's names, what it says of itself, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panendofm.records.run import (
    DESCRIPTION_NAME,
    METADATA_NAME,
    CheckpointInfo,
    Rollback,
    RunFolder,
    RunInfo,
    is_whole_checkpoint,
    read_checkpoint_info,
    refuse_half_written,
    run_of,
    step_name,
    step_of,
    write_checkpoint_info,
)
from panendofm.records.shards import Certificate, GuardedSet
from panendofm.runtime.errors import UserError


def write_checkpoint(run: RunFolder, step: int) -> Path:
    path = run.checkpoint(step)
    path.mkdir(parents=True)
    (path / METADATA_NAME).touch()
    guarded = GuardedSet("kvasir", 8, 0, "ab" * 32, 2)
    write_checkpoint_info(path, CheckpointInfo(step, {"width": 8}, certificate=Certificate([guarded])))
    return path


@pytest.mark.parametrize("step", [0, 12500, 9999999, 10000000, 123456789])
def test_step_names_sort_and_read_back(step: int) -> None:
    assert step_of(step_name(step)) == step


@pytest.mark.parametrize("name", ["step_12", ".step_0000012", "step_0000012.partial-save", "best", "step_000001x"])
def test_other_names_are_no_steps(name: str) -> None:
    assert step_of(name) is None


def test_checkpoints_of_a_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    assert not run.is_run() and run.steps() == []
    first, second, torn = (write_checkpoint(run, step) for step in (0, 300, 20))
    (torn / METADATA_NAME).unlink()
    assert run.steps() == [300, 20, 0]
    assert run.whole_checkpoints() == [first, second]
    assert run.selected() is None and run.selected_or_latest() == second
    run.best.symlink_to(Path("checkpoints") / first.name)
    assert run.selected() == first and run_of(run.best) == RunFolder(run.path.resolve())
    assert is_whole_checkpoint(second)
    with pytest.raises(UserError, match="not finished"):
        refuse_half_written(torn)
    refuse_half_written(second)


def test_a_dangling_best_falls_back_to_the_latest(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    second = write_checkpoint(run, 5)
    run.best.symlink_to(Path("checkpoints") / step_name(3))
    assert run.selected() is None and run.selected_or_latest() == second


def test_an_empty_run_has_no_checkpoint_to_give(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="no complete checkpoint yet"):
        RunFolder(tmp_path).selected_or_latest()


def test_records_read_back_equal(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.read_info() is None and run.read_rollbacks() == []
    run.write_info(RunInfo(total_steps=400, order_version=2))
    entries = [Rollback(1, "it fell", 300, 100, 0.3, 1.5, done=True)]
    run.write_rollbacks(entries)
    assert run.read_info() == RunInfo(400, 2) and run.read_rollbacks() == entries
    path = write_checkpoint(run, 7)
    assert read_checkpoint_info(path).certificate == Certificate([GuardedSet("kvasir", 8, 0, "ab" * 32, 2)])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b'{"vit": {}}', "'step'"),
        (b'{"step": "7", "vit": {}}', "'step'"),
        (b'{"step": 7, "vit": {}, "files": {"a": "b"}}', "'files.a'"),
        (b"[]", "object"),
    ],
)
def test_a_damaged_description_is_one_sentence_that_names_file_and_key(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    (tmp_path / DESCRIPTION_NAME).write_bytes(content)
    with pytest.raises(UserError, match=DESCRIPTION_NAME) as refused:
        read_checkpoint_info(tmp_path)
    assert fault in str(refused.value) and "\n" not in str(refused.value)


def test_descriptions_of_before_are_read(tmp_path: Path) -> None:
    old = {"format": 1, "step": 3, "vit": {"width": 8}, "certificate": {"guarded_sets": [{"name": "a"}]}, "files": {}}
    (tmp_path / DESCRIPTION_NAME).write_text(json.dumps(old))
    assert read_checkpoint_info(tmp_path).certificate == Certificate([GuardedSet("a")])


def test_rollbacks_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.read_rollbacks() == []
    entry = Rollback(1, "it fell", 40, 20, 0.3, 1.0, True)
    run.write_rollbacks([entry])
    assert run.rollbacks.name == "rollbacks.json" and run.read_rollbacks() == [entry]
