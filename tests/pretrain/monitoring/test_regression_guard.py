"""Training that does harm: back to the last good checkpoint with a lower rate, then a clean stop."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from engine_runs import finish, metrics_of, monitored, run_ranks, start_ranks, tensors_of, words_of
from guard_faults import (
    die_after_the_first_checkpoint_is_removed,
    die_before_anything_is_undone,
    die_before_it_is_marked_as_done,
    nan_at_the_full_rate,
)

from eval_knn import EvalConfig, Evaluation, SelectionConfig, claim
from launch.report.collect import collect
from panendofm.backbone import load_backbone
from panendofm.backbone.command_config import ExportConfig
from panendofm.backbone.release import export_release
from panendofm.records.evaluation import encode_ranks, images_folder
from panendofm.records.run import RunFolder, patch_image, patch_images, step_name
from panendofm.runtime.errors import UserError
from pretrain.config import CheckpointConfig, MonitorConfig
from pretrain.monitoring import rollback
from pretrain.monitoring.health import SkippedSteps
from pretrain.monitoring.monitor import Monitor
from pretrain.monitoring.regression_guard import find_regression
from pretrain.monitoring.rollback import Rollbacks
from pretrain.optimizer.step import StepResult
from pretrain.parallel.world import World, joined_world
from pretrain.run.checkpoints import CheckpointStore
from pretrain.run.retention import Retention

QUERIES = 400


def history(*values: float, ranks: bool = True) -> list[Evaluation]:
    """Evaluations of 400 queries; those with a lower score get the first queries wrong, so they are paired."""
    made = []
    for i, value in enumerate(values):
        wrong = np.arange(QUERIES) < QUERIES * (1 - value)
        found = {"20": encode_ranks(np.where(wrong, 7, 0))} if ranks else {}
        made.append(Evaluation(f"step_{i:07d}", i, {"top1_k20": value}, ranks=found, groups=(), split_sha256="s"))
    return made


@pytest.mark.parametrize(
    ("values", "ranks", "good"),
    [
        ((0.50, 0.49, 0.60), True, None),  # within the margin
        ((0.50, 0.60, 0.40), True, (0, 1)),
        ((0.50, 0.40), True, (0,)),
        ((0.50, 0.40, 0.60), True, None),  # scored late, or before the guard was on: the fall was made good
        ((0.50, 0.40, 0.60, 0.40), True, (0, 2)),  # back to the last good one, not to before the first fall
        ((0.50, 0.40), False, (0,)),  # the noise is not known: the margin decides
        ((0.50, float("nan")), False, (0,)),
        ((0.50,), True, None),
    ],
)
def test_what_counts_as_a_fall(values: tuple[float, ...], ranks: bool, good: tuple[int, ...] | None) -> None:
    cause = find_regression(history(*values, ranks=ranks), 0.02, SelectionConfig())
    assert (None if cause is None else cause.good_steps) == good
    if cause is not None and ranks:
        assert "top1_k20 fell from 0.5000 at the start to 0.4000 at step" in cause.why


def test_a_fall_within_the_noise_is_none() -> None:
    """Three points lower, but on other queries: as likely chance as not."""
    start, now = history(0.50, 0.47)
    right = np.random.default_rng(0).permutation(QUERIES) >= round(QUERIES * 0.53)
    shuffled = Evaluation("now", 1, now.values, {"20": encode_ranks(np.where(right, 0, 7))}, (), "s")
    assert find_regression([start, shuffled], 0.02, SelectionConfig()) is None
    assert find_regression([start, now], 0.02, SelectionConfig()) is not None
    assert find_regression([now], 0.02, SelectionConfig()) is None  # step 0 was not evaluated


class OneRank:
    is_first = True


def test_a_frozen_backbone_does_not_use_up_the_patience(tmp_path: Path) -> None:
    evaluation = EvalConfig(selection=SelectionConfig(patience_evaluations=2))
    config = MonitorConfig(mode="watch", evaluation=evaluation)
    flat, run = history(0.5, 0.5, 0.5, 0.5, 0.5), RunFolder(tmp_path)  # steps 0 to 4
    assert Monitor(config, run, OneRank())._verdict_on(flat).stop  # type: ignore[arg-type]
    assert not Monitor(config, run, OneRank(), None, 3)._verdict_on(flat).stop  # type: ignore[arg-type]
    assert Monitor(config, run, OneRank(), None, 2)._verdict_on(flat).stop  # type: ignore[arg-type]
    verdict = Monitor(config, run, OneRank(), 0.02)._verdict_on(history(0.5, 0.6, 0.4))  # type: ignore[arg-type]
    assert (verdict.continues, verdict.stop, verdict.last_good_step) == (False, False, 1)


def test_the_checkpoint_to_roll_back_to_is_kept(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    retention = Retention(run, CheckpointConfig(keep_last=2))
    for step in (0, 5, 10, 15, 20):
        run.checkpoint(step).mkdir(parents=True)
    retention.last_good_step = 5
    retention.remove_old()
    assert run.steps() == [20, 15, 5]


def test_what_scored_highest_is_not_undone_for_steps_that_gave_no_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skipped steps change no weight: what is saved among them is as good as what was saved before."""
    run, config = RunFolder(tmp_path), CheckpointConfig()
    for step in range(8):
        run.checkpoint(step).mkdir(parents=True)
    skipped = StepResult({}, {}, skipped=True, own_loss_is_finite=True)
    for values, good in (
        ((0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7), (0, 1, 2, 3, 4, 5, 6)),
        ((0.5, 0.9), (0, 1, 2, 3, 4, 5)),
    ):
        monkeypatch.setattr("pretrain.run.retention.read_history", lambda run, values=values: history(*values))
        with joined_world("cpu", 60) as world:
            store = CheckpointStore(run, world, config, Retention(run, config, SelectionConfig()))
            counter = SkippedSteps(3, True, store, world)
            assert [counter.count(step, skipped, []) for step in (5, 6)] == [None, None]
            cause = counter.count(7, skipped, [])
        assert cause is not None and cause.good_steps == good


SABOTAGE: dict[str, Any] = {
    "schedule__base_lr": 500.0,  # wrecks any network
    "schedule__total": "8 steps",
    "schedule__momentum_start": 0.5,
    "monitor__every_steps": 2,
    "monitor__evaluation__split__leave_one_group_out": True,
    "regression_guard__when": "always",
    "regression_guard__margin": 0.1,
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tints of noise: an untrained network tells them apart, one whose features lie on a line can't."""
    folder, rng = tmp_path_factory.mktemp("labelled") / "classes", np.random.default_rng(0)
    for number in range(8):
        (folder / f"tint{number}").mkdir(parents=True)
        angle = 2 * np.pi * (number / 8 + np.array([0, 1, 2]) / 3)
        for i in range(6):
            image = np.clip(rng.normal(128 + 50 * np.cos(angle), 40, (40, 40, 3)), 0, 255).astype(np.uint8)
            (folder / f"tint{number}" / f"{i}.jpg").write_bytes(simplejpeg.encode_jpeg(image))
    return folder


def rollbacks_of(run: Path) -> list[dict[str, Any]]:
    entries = json.loads((run / "rollbacks.json").read_text())["rollbacks"]
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def scores_of(folder: Path) -> dict[int, float]:
    documents = [json.loads(path.read_text()) for path in folder.glob("knn_step_*.json")]
    return {document["step"]: document["k"]["3"]["top1"] for document in documents}


def words(run: Path, shards: Path, classes: Path, **changes: Any) -> list[str]:
    return monitored(run, shards, classes, **{**SABOTAGE, **changes})


@pytest.fixture(scope="module")
def rescued(shards: Path, classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went back once, to a learning rate at which nothing moves any more."""
    run = tmp_path_factory.mktemp("rescued") / "run"
    said = run_ranks(words(run, shards, classes, regression_guard__lr_factor=1e-9), 1)
    assert "rolled back from step" in said
    assert "done: 8 steps" in said
    return run


def test_a_sabotaged_rate_is_taken_back_and_leaves_no_trace_in_the_run(rescued: Path) -> None:
    (entry,) = rollbacks_of(rescued)
    assert entry["done"]
    assert entry["lr_factor"] == 1e-9
    scores = scores_of(rescued / "eval")
    assert sorted(scores) == [0, 2, 4, 6, 8]
    assert min(scores.values()) > scores[0] - 0.1
    undone = scores_of(rescued / "rolled_back" / "1")
    assert list(undone) == [entry["from_step"]]
    assert undone[entry["from_step"]] < scores[0] - 0.1
    lines = metrics_of(rescued)
    assert [line["step"] for line in lines] == list(range(9))
    back = entry["to_step"]
    assert all((line["schedule"]["lr"] < 1e-6) == (line["step"] >= back) for line in lines[1:8])
    apart = [json.loads(line) for line in (rescued / "rolled_back" / "1" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in apart] == list(range(back, entry["from_step"]))
    assert (rescued / "best").resolve().name in {f"step_{step:07d}" for step in scores}
    events = [event for event in collect(RunFolder(rescued)).events if event.text.startswith("went back to step")]
    assert [event.step for event in events] == [entry["from_step"]]


@pytest.mark.parametrize(
    "death",
    [
        die_after_the_first_checkpoint_is_removed,
        die_before_it_is_marked_as_done,
        pytest.param(die_before_anything_is_undone, marks=pytest.mark.slow),
    ],
)
def test_killed_in_the_middle_of_a_rollback_it_goes_on_exactly(
    shards: Path, classes: Path, rescued: Path, tmp_path: Path, death: Callable[[], None]
) -> None:
    run = tmp_path / "run"
    command = words(run, shards, classes, regression_guard__lr_factor=1e-9)
    codes, said = finish(start_ranks(command, 1, death))
    assert -signal.SIGKILL in codes, said
    assert not rollbacks_of(run)[0]["done"]
    run_ranks(command, 1)
    assert rollbacks_of(run) == rollbacks_of(rescued)
    assert scores_of(run / "eval") == scores_of(rescued / "eval")
    assert scores_of(run / "rolled_back" / "1") == scores_of(rescued / "rolled_back" / "1")
    assert metrics_of(run) == metrics_of(rescued)
    apart = Path("rolled_back", "1", "metrics.jsonl")
    assert (run / apart).read_text().count("\n") == (rescued / apart).read_text().count("\n")
    ours, theirs = (tensors_of(one / "checkpoints" / "step_0000008") for one in (run, rescued))
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_a_rollback_waits_for_a_watcher_in_short_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one long collective the other ranks would give up after run.timeout_seconds."""
    run = RunFolder(tmp_path)
    for step in (0, 5):
        run.checkpoint(step).mkdir(parents=True)
        for folder in (run.images, images_folder(run.evaluations, step_name(step))):
            folder.mkdir(parents=True, exist_ok=True)
        patch_image(run, step).touch()
    monkeypatch.setattr(rollback, "_POLL_SECONDS", 0.05)
    rounds: list[float] = []
    broadcast = World.broadcast

    def counted(world: World, value: Any) -> Any:
        rounds.append(time.monotonic())
        return broadcast(world, value)

    monkeypatch.setattr(World, "broadcast", counted)
    with joined_world("cpu", 60) as world, ExitStack() as watcher:
        assert watcher.enter_context(claim(run, step_name(5)))  # a watcher evaluates it
        release = threading.Timer(0.6, watcher.close)
        release.start()
        Rollbacks(run, world, SelectionConfig()).roll_back("test", 7, 0, 0.5)
        release.join()
    assert run.steps() == [0]
    assert run.read_rollbacks()[0].done
    assert [step for step, _ in patch_images(run)] == [0], "drawn of what was undone"
    drawn = [images_folder(run.evaluations, step_name(step)).exists() for step in (0, 5)]
    assert drawn == [True, False]
    assert len(rounds) > 5 and max(np.diff(rounds)) < 0.4


@pytest.mark.slow
def test_a_watcher_may_take_longer_than_ranks_wait_for_one_another(shards: Path, classes: Path, tmp_path: Path) -> None:
    run, patience = RunFolder(tmp_path / "run"), 10
    command = words(run.path, shards, classes, regression_guard__lr_factor=1e-9, run__timeout_seconds=patience)
    with ExitStack() as watcher:
        for step in (2, 4, 6, 8):
            assert watcher.enter_context(claim(run, step_name(step)))
        ranks = start_ranks(command, 2)
        deadline = time.monotonic() + 60
        while not run.rollbacks.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1.5 * patience)
        assert not run.read_rollbacks()[0].done
    codes, said = finish(ranks)
    assert codes == [0, 0], said
    assert "waiting for the watcher that evaluates step_" in said
    assert "done: 8 steps" in said


def test_after_the_last_rollback_the_run_stops_and_stays_stopped(shards: Path, classes: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # At the same rate the same steps are done again, and the same harm: on every machine, whatever its rounding.
    command = words(
        run, shards, classes, regression_guard__rollbacks=1, regression_guard__lr_factor=1.0, schedule__warmup="0 steps"
    )
    said = run_ranks(command, 1)
    assert "stopped: training did harm 2 times" in said
    entries = rollbacks_of(run)
    assert [entry["number"] for entry in entries] == [1, 2]
    assert [entry["lr_factor"] for entry in entries] == [1.0, 1.0]
    good = entries[-1]["to_step"]
    assert max(scores_of(run / "eval")) == good
    assert sorted(path.name for path in (run / "checkpoints").glob("step_*"))[-1] == f"step_{good:07d}"
    assert "nothing to do: the run has ended" in run_ranks(command, 1)
    said = run_ranks([*command, "regression_guard.rollbacks=2"], 1)  # one more chance may be given
    assert "training did harm 3 times" in said


def test_a_rate_that_gives_no_numbers_can_be_taken_back_too(shards: Path, tmp_path: Path) -> None:
    changes = {"regression_guard__non_finite": True, "regression_guard__lr_factor": 0.1, "health__max_skipped_steps": 2}
    command = words_of(tmp_path / "run", shards, **changes)
    said = run_ranks(command, 2, sabotage=nan_at_the_full_rate)
    assert "rolled back from step 7 to step 3: 2 steps in a row were non-finite, the last one is 6;" in said
    assert [line["step"] for line in metrics_of(tmp_path / "run")] == list(range(12))
    assert not any(line.get("skipped") for line in metrics_of(tmp_path / "run"))
    rates = [line["schedule"]["lr"] for line in metrics_of(tmp_path / "run")]
    assert rates[2] > 5 * rates[3]


def test_what_is_worse_than_its_start_is_not_exported(shards: Path, classes: Path, tmp_path: Path) -> None:
    run, to = tmp_path / "run", tmp_path / "release"
    changes = {"regression_guard__when": "never", "schedule__total": "4 steps", "checkpoint__keep_last": 9}
    run_ranks(words(run, shards, classes, **changes), 1)
    worst = run / "checkpoints" / "step_0000004"
    with pytest.raises(UserError, match=r"step_0000004 of .* is worse than the weights that it began with: top1_k3 -0"):
        export_release(worst, ExportConfig(str(to), formats=["hub"]))
    assert not to.exists()
    export_release(worst, ExportConfig(str(to), formats=["hub"], allow_worse_than_start=True))
    best = export_release(run / "best", ExportConfig(str(tmp_path / "best"), formats=["hub"]))
    assert (best.source.step or 0) < 4
    mixed = export_release(
        worst,
        ExportConfig(str(tmp_path / "mixed"), formats=["hub"], average_with_start=0.25, allow_worse_than_start=True),
    )
    assert mixed.source.start_share == 0.25
    ours, there, first = (
        load_backbone(path).model.state_dict()
        for path in (tmp_path / "mixed", worst, run / "checkpoints" / "step_0000000")
    )
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, 0.75 * there[name] + 0.25 * first[name])
    with pytest.raises(UserError, match="lies between 0 and 1"):
        export_release(
            worst,
            ExportConfig(str(tmp_path / "none"), formats=["hub"], average_with_start=1.5, allow_worse_than_start=True),
        )
