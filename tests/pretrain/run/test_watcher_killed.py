"""A watcher that is killed anywhere in an update: training removes old checkpoints, and `best` is right afterwards."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from eval_knn import SelectionConfig, record, update_best
from panendofm.records.evaluation import (
    Evaluated,
    EvaluatedData,
    KnnDocument,
    LeakageNote,
    MetricsAtK,
    evaluation_path,
)
from panendofm.records.run import DESCRIPTION_NAME, METADATA_NAME, RunFolder, step_name
from pretrain.config import CheckpointConfig
from pretrain.run.retention import Retention

RULE = SelectionConfig(tie_breaks=[], bootstrap_samples=50)
QUERIES = 20


def document(step: int, top1: float) -> KnnDocument:
    right = round(top1 * QUERIES)
    at_k = MetricsAtK(top1, 1.0, top1, top1, top1, {}, [], 2, "0" * right + "1" * (QUERIES - right), 20)
    data = EvaluatedData("set", "0" * 64, ["a", "b"], 40, QUERIES, 0, None, "0" * 64, False)
    return KnnDocument(
        step_name(step), step, None, "run", "vit", "", {}, data, 0.07, 0.95, {"20": at_k},
        " ".join(map(str, range(QUERIES))), 50.0, None, None, LeakageNote(None, ""), Evaluated("", 1, 1.0),
    )  # fmt: skip


def write_checkpoint(run: RunFolder, step: int) -> None:
    run.checkpoint(step).mkdir(parents=True)
    for name in (DESCRIPTION_NAME, METADATA_NAME):
        (run.checkpoint(step) / name).touch()


def _is_system_call(function: Any) -> bool:
    if isinstance(getattr(function, "__self__", None), io.IOBase):
        return True
    return getattr(function, "__module__", None) in ("posix", "fcntl", "_io", "io")


def killed_before_call(run: RunFolder, number: int) -> bool:
    """A watcher that records step 100 and dies before its n-th system call; False when it came through."""
    child = os.fork()
    if child == 0:
        left = number

        def count(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal left
            if event == "c_call" and _is_system_call(argument):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        record(run, document(100, 0.8), RULE)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("keep_last", "watched", "first"), [(1, True, False), (2, True, False), (1, False, False), (1, False, True)]
)
def test_a_watcher_that_is_killed_between_any_two_system_calls(
    tmp_path: Path, keep_last: int, watched: bool, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`watched`: training knows the rule of its watcher (monitor.mode=watch). Else it does not know of one.

    `first`: nothing was chosen before, because the update is the first one or the one before it was killed, too.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill loses nothing that the system has taken
    number = 0
    kills = 0
    while True:
        number += 1
        run = RunFolder(tmp_path / f"run-{number}")
        for step in (0, 100):
            write_checkpoint(run, step)
        record(run, document(0, 0.5), RULE)
        if first:
            run.best.unlink()
            (run.evaluations / "knn_selection.json").unlink()
        was_killed = killed_before_call(run, number)
        kills += was_killed
        is_scored = evaluation_path(run, step_name(100)).is_file()
        retention = Retention(run, CheckpointConfig(keep_last=keep_last), RULE if watched else None, watched)
        for step in (110, 120)[:keep_last]:
            write_checkpoint(run, step)
            retention.remove_old()
            best = run.selected()
            known = watched or not first or not was_killed
            if is_scored:
                assert 100 in run.steps(), number
                assert not known or best == run.checkpoint(100).resolve(), number
            elif known:
                assert best == run.checkpoint(0).resolve(), number
        if is_scored or watched:
            assert 100 in run.steps(), number
        if not is_scored and watched:
            record(run, document(100, 0.8), RULE)  # the next watcher
        elif is_scored:
            update_best(run, RULE)
        if is_scored or watched:
            assert run.selected() == run.checkpoint(100).resolve(), number
        shutil.rmtree(run.path)
        if not was_killed:
            break
    assert kills > 20
