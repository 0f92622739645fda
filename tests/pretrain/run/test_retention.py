"""Which checkpoints are removed: never one that something still waits for."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from eval_knn import Evaluation, SelectionConfig, claim
from panendofm.records.evaluation import SelectionDocument, evaluation_path, write_selection
from panendofm.records.run import DESCRIPTION_NAME, METADATA_NAME, RunFolder, is_whole_checkpoint, step_name
from panendofm.runtime.files import replace_link
from pretrain.config import CheckpointConfig, PretrainConfig
from pretrain.run import retention as retention_module
from pretrain.run.retention import Retention, most_checkpoints


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Eight checkpoints, none of them scored."""
    run = RunFolder(tmp_path / "run")
    for step in range(0, 80, 10):
        run.checkpoint(step).mkdir(parents=True)
        for name in (DESCRIPTION_NAME, METADATA_NAME):
            (run.checkpoint(step) / name).touch()
    return run


def score(run: RunFolder, *steps: int) -> None:
    run.evaluations.mkdir(exist_ok=True)
    for step in steps:
        evaluation_path(run, step_name(step)).touch()


def test_without_a_watcher_only_the_newest_stay(run: RunFolder) -> None:
    Retention(run, CheckpointConfig(keep_last=2, keep_every_steps=40)).remove_old()
    assert run.steps() == [70, 60, 40, 0]
    assert not run.claims.exists()  # a run without evaluations is left without their folder


def test_what_a_watcher_has_not_scored_stays(
    run: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        retention_module, "read_history", lambda run: [Evaluation(step_name(40), 40, {"top1_k20": 0.9})]
    )
    retention = Retention(run, CheckpointConfig(keep_last=2), SelectionConfig(tie_breaks=[]), watched=True)
    score(run, 0, 20, 40)
    retention.remove_old()
    assert run.steps() == [70, 60, 50, 40, 30, 10]
    assert "wait for their score" not in "".join(capsys.readouterr())
    score(run, 10, 30)
    retention.remove_old()
    assert run.steps() == [70, 60, 50, 40]


def test_the_backlog_of_a_watcher_is_bounded_and_named_and_the_start_waits(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    Retention(run, CheckpointConfig(keep_last=2, keep_unscored=3), watched=True).remove_old()
    assert run.steps() == [70, 60, 50, 40, 30, 0]
    said = " ".join("".join(capsys.readouterr()).split())
    assert "5 checkpoints wait for their score (step_0000010 to step_0000050)" in said
    assert "checkpoint.keep_unscored=3" in said


def test_what_a_watcher_holds_stays(run: RunFolder) -> None:
    with claim(run, step_name(10)) as is_ours:
        assert is_ours
        Retention(run, CheckpointConfig(keep_last=2)).remove_old()
        assert run.steps() == [70, 60, 10]
    Retention(run, CheckpointConfig(keep_last=2)).remove_old()
    assert run.steps() == [70, 60]


def test_best_never_points_at_what_was_removed(run: RunFolder) -> None:
    """A watcher has just chosen a checkpoint and is about to move the link to it."""
    retention = Retention(run, CheckpointConfig(keep_last=2))
    with claim(run, "selection"):
        removal = threading.Thread(target=retention.remove_old)
        removal.start()
        time.sleep(0.3)
        chosen = run.checkpoint(20)
        assert is_whole_checkpoint(chosen)
        replace_link(run.best, chosen.relative_to(run.path))
    removal.join()
    assert run.steps() == [70, 60, 20]
    assert run.selected() == chosen.resolve()


def test_the_highest_score_ever_stays(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {0: 0.5, 10: 0.9, 20: 0.8, 30: 0.85, 40: 0.6}
    history = [Evaluation(step_name(step), step, {"top1_k20": value}) for step, value in scores.items()]
    monkeypatch.setattr(retention_module, "read_history", lambda run: history)
    Retention(run, CheckpointConfig(keep_last=2), SelectionConfig(tie_breaks=[])).remove_old()
    assert run.steps() == [70, 60, 10]


def test_the_highest_score_stays_in_a_run_that_others_evaluate(run: RunFolder) -> None:
    """With monitor.mode=none, by a rule that the run does not know: its tie-breaks did not choose the highest."""
    choice = SelectionDocument(step_name(20), 20, "why", "mcc_k5", False, "", 3, highest=step_name(10))
    write_selection(run, choice)
    replace_link(run.best, run.checkpoint(20).relative_to(run.path))
    Retention(run, CheckpointConfig(keep_last=2)).remove_old()
    assert run.steps() == [70, 60, 20, 10]


@pytest.mark.parametrize("keep_every", [None, 20])
@pytest.mark.parametrize("watched", [False, True])
def test_the_count_for_the_disk_is_what_is_kept_at_most(
    run: RunFolder, keep_every: int | None, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As bad as it gets: nothing is scored, and the choice, the highest and the last good one are all old."""
    config = PretrainConfig(checkpoint=CheckpointConfig(keep_last=2, keep_every_steps=keep_every, keep_unscored=2))
    config.monitor.mode = "watch" if watched else "inline"
    config.regression_guard.when = "always"
    steps = [207, 203, *range(200, -1, -5)]
    retention = Retention(run, config.checkpoint, SelectionConfig(), watched)
    retention.last_good_step = 15
    monkeypatch.setattr(retention, "chosen_steps", lambda steps: {25, 35})
    kept = retention.protected_steps(steps)
    assert most_checkpoints(config, 207) == len(kept) + 1, "and the one that is being written"
