"""A run that is killed, resumed and moved between numbers of ranks ends as the one that was left alone."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from engine_runs import (
    Rank,
    assert_same_run,
    finish,
    metrics_of,
    run_ranks,
    start_ranks,
    words_of,
)

from panendofm.records.run import RunFolder
from panendofm.records.shards import ShardFolder


def steps_done(run: Path) -> int:
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def is_saving(run: Path, since: float) -> bool:
    """Whether a checkpoint is being written that was begun after `since`: not the remains of an earlier kill."""
    with contextlib.suppress(FileNotFoundError):  # it is complete by now
        return any(path.stat().st_mtime > since for path in (run / "checkpoints").glob(".step_*save"))
    return False


def kill_at(ranks: list[Rank], victims: list[int], run: Path, moment: str, chance: float) -> None:
    """SIGKILL the victims after a step, or while a checkpoint is being written; then wait for the others to end."""
    began = time.time()
    target = steps_done(run) + 1 + int(chance * 4)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(rank.code is None for rank in ranks):
        if (moment == "save" and is_saving(run, began)) or (moment == "step" and steps_done(run) >= target):
            break
        time.sleep(0.001)
    for victim in victims:
        ranks[victim].signal(signal.SIGKILL)
    codes, said = finish(ranks, 60)
    assert None not in codes, f"a rank was left hanging: {codes}\n{said}"
    assert 0 not in codes, f"a rank took no notice of the loss: {codes}\n{said}"


def survive(run: Path, words: list[str], kills: int, seed: int) -> int:
    """Start the run again and again; the number of kills that met a running job."""
    rng = random.Random(seed)
    landed = 0
    for number in range(kills):
        ranks = start_ranks(words, 2)
        victims = [[0, 1], [0], [1]][number % 3]
        kill_at(ranks, victims, run, "step" if number % 3 == 1 else "save", rng.random())
        landed += any(rank.code == -signal.SIGKILL for rank in ranks)
    return landed


def test_a_run_keeps_which_corpora_it_saw(undisturbed: Path, shards: Path) -> None:
    """For the model card: the shards may be gone by then. These, as others may make them, name no license."""
    info = RunFolder(undisturbed).read_info()
    held = pq.read_table(ShardFolder(shards).frames).column("corpus").to_pylist()
    assert info is not None and info.corpora is not None and len(info.corpora) == len(set(held))
    assert all(part.frames == held.count(part.name) and part.license is None for part in info.corpora)


def test_three_kills_change_nothing(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    words = words_of(run, shards)
    assert survive(run, words, kills=3, seed=1) == 3
    said = run_ranks(words, 2)
    assert "resuming from step" in said
    assert_same_run(undisturbed, run, 12)
    assert not list((run / "checkpoints").glob(".*")), "a half-written checkpoint was left behind"


@pytest.mark.slow
def test_a_run_that_colors_on_the_device_is_resumed_exactly(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    on_device = {"augment__where": "gpu", "schedule__total": "8 steps"}
    run_ranks(words_of(whole, shards, **on_device), 2)
    run_ranks(words_of(stopped, shards, **on_device, run__stop_at="5 steps", data__workers=1), 2)
    run_ranks(words_of(stopped, shards, **on_device), 2)
    assert_same_run(whole, stopped, 8)
    # The same draws as on the CPU: nearly the same image, and not quite.
    ours, theirs = metrics_of(whole)[0], metrics_of(undisturbed)[0]
    assert ours["keys"] == theirs["keys"]
    assert ours["total"] == pytest.approx(theirs["total"], rel=1e-3)
    assert ours["total"] != theirs["total"]
    said = run_ranks(words_of(stopped, shards, schedule__total="8 steps"), 2, expect=2)
    assert "can't go on exactly with another augment.where (it was 'gpu', now it is 'cpu')" in said


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_change_nothing(shards: Path, tmp_path: Path) -> None:
    longer = {"schedule__total": "90 steps"}
    run_ranks(words_of(tmp_path / "undisturbed", shards, **longer), 2, timeout=600)
    run = tmp_path / "killed"
    words = words_of(run, shards, **longer)
    landed = survive(run, words, kills=20, seed=2)
    assert landed == 20
    run_ranks(words, 2, timeout=600)
    assert_same_run(tmp_path / "undisturbed", run, 90)


@pytest.mark.slow
def test_a_run_moves_between_numbers_of_ranks(shards: Path, tmp_path: Path) -> None:
    alone, moved = tmp_path / "alone", tmp_path / "moved"
    run_ranks(words_of(alone, shards), 1)
    for ranks, stop in ((4, "3 steps"), (2, "6 steps"), (1, "9 steps"), (4, None)):
        run_ranks(words_of(moved, shards, run__stop_at=stop), ranks)
    expected, seen = metrics_of(alone), metrics_of(moved)
    assert [line["keys"] for line in seen] == [line["keys"] for line in expected]
    assert len({key for line in seen for key in line["keys"]}) == 120
    for ours, theirs in zip(seen, expected, strict=True):
        for loss in ("total", "dino_local", "dino_global", "ibot", "koleo"):
            assert ours[loss] == pytest.approx(theirs[loss], rel=1e-5), f"{loss} at step {ours['step']}"
