"""kNN while training: the best checkpoint and early stopping, also across a resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from engine_runs import metrics_of, monitored, run_ranks, write_classes
from guard_faults import ask_to_stop_in_the_last_step

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.records.run import EXIT_REQUEUE, RunFolder
from panendofm.runtime.files import replace_link


def test_a_monitored_run_is_evaluated_once_at_each_place(shards: Path, tmp_path: Path) -> None:
    classes, run = write_classes(tmp_path / "classes"), tmp_path / "run"
    run_ranks(monitored(run, shards, classes, run__stop_at="4 steps"), 2)
    evaluated = {path.name: path.stat().st_mtime_ns for path in (run / "eval").glob("knn_step_*.json")}
    assert sorted(evaluated) == ["knn_step_0000000.json", "knn_step_0000004.json"]
    run_ranks(monitored(run, shards, classes), 2)
    now = {path.name: path.stat().st_mtime_ns for path in (run / "eval").glob("knn_step_*.json")}
    assert sorted(now) == [f"knn_step_000000{step}.json" for step in (0, 4, 8, 9)]
    assert {name: now[name] for name in evaluated} == evaluated, "a resumed run evaluated again"
    chosen = json.loads((run / "eval" / "knn_selection.json").read_text())["checkpoint"]
    assert (run / "best").resolve() == run.resolve() / "checkpoints" / chosen
    lines = metrics_of(run)
    assert [line["step"] for line in lines if "knn" in line] == [0, 4, 8, 9]
    assert [line["step"] for line in lines] == list(range(10))
    assert 0 <= lines[0]["knn"]["top1_k3"] <= 1


def test_a_run_that_was_killed_before_its_last_evaluation_makes_it(shards: Path, tmp_path: Path) -> None:
    classes, run = write_classes(tmp_path / "classes"), RunFolder(tmp_path / "run")
    words = monitored(run.path, shards, classes, schedule__total="5 steps")
    run_ranks(words, 2)
    last, chosen = run.path / "eval" / "knn_step_0000005.json", run.path / "eval" / "knn_selection.json"
    document, choice, lines = json.loads(last.read_text()), json.loads(chosen.read_text()), metrics_of(run.path)
    last.unlink()  # the checkpoint of step 5 is written, its evaluation is not
    metrics = run.path / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    said = run_ranks(words, 2)
    assert "nothing to do" not in said
    assert json.loads(last.read_text())["k"] == document["k"]
    assert json.loads(chosen.read_text())["checkpoint"] == choice["checkpoint"]
    assert [(line["step"], line.get("knn")) for line in metrics_of(run.path)] == [
        (line["step"], line.get("knn")) for line in lines
    ]
    assert "nothing to do" in run_ranks(words, 2)


def test_a_run_that_is_asked_to_stop_in_its_last_step_is_not_done_before_that_is_evaluated(
    shards: Path, tmp_path: Path
) -> None:
    classes, run = write_classes(tmp_path / "classes"), RunFolder(tmp_path / "run")
    words = monitored(run.path, shards, classes, schedule__total="4 steps")
    said = run_ranks(words, 2, expect=EXIT_REQUEUE, sabotage=ask_to_stop_in_the_last_step)
    assert "stopped at step 4 as asked" in said and "done:" not in said
    last = run.path / "eval" / "knn_step_0000004.json"
    assert run.steps()[0] == 4 and not last.exists()
    assert "done: 4 steps" in run_ranks(words, 2)
    assert last.exists()


@pytest.mark.parametrize("mode", ["inline", "watch"])
def test_a_run_that_begins_again_at_step_0_does_not_write_its_checkpoint_again(
    mode: str, shards: Path, tmp_path: Path
) -> None:
    """A watcher may be reading it, and `best` points at it."""
    classes, run = write_classes(tmp_path / "classes"), RunFolder(tmp_path / "run")
    words = monitored(run.path, shards, classes, run__stop_at="2 steps", monitor__mode=mode)
    run_ranks(words, 1)
    for path in (run.path / "eval").glob("knn_*.json"):
        path.unlink()
    shutil.rmtree(run.checkpoint(2))  # as if it had been killed before
    first = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in run.checkpoint(0).iterdir()}
    assert first and "done: 2 steps" in run_ranks(words, 1)
    assert {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in run.checkpoint(0).iterdir()} == first
    assert (run.path / "eval" / "knn_step_0000000.json").exists() == (mode == "inline")


def test_a_run_that_was_killed_before_it_chose_chooses_though_nothing_else_is_left_to_do(
    shards: Path, tmp_path: Path
) -> None:
    classes, run = write_classes(tmp_path / "classes"), RunFolder(tmp_path / "run")
    words = monitored(run.path, shards, classes, schedule__total="4 steps")
    run_ranks(words, 1)
    chosen, best = run.path / "eval" / "knn_selection.json", run.best.readlink()
    document = json.loads(chosen.read_text())
    chosen.write_text(json.dumps({**document, "checkpoint": "step_0000002", "evaluated": 1}))  # as it was before
    replace_link(run.best, Path("checkpoints", "step_0000002"))
    assert "nothing to do" in run_ranks(words, 1)
    assert (json.loads(chosen.read_text()), run.best.readlink()) == (document, best)
    before = [path.lstat().st_mtime_ns for path in (chosen, run.best)]
    assert "nothing to do" in run_ranks(words, 1)
    assert [path.lstat().st_mtime_ns for path in (chosen, run.best)] == before


def test_a_run_that_does_not_improve_stops_early_and_stays_stopped(shards: Path, tmp_path: Path) -> None:
    classes, run = write_classes(tmp_path / "classes"), tmp_path / "run"
    patience = {
        "monitor__every_steps": 2,
        "monitor__evaluation__selection__minimum_gain": 1.0,  # nothing counts as a gain
        "monitor__evaluation__selection__patience_evaluations": 2,
    }
    words = monitored(run, shards, classes, schedule__total="40 steps", **patience)
    assert "stopped at step 4: top1_k3 has not risen" in run_ranks(words, 1)
    assert "nothing to do: the run has ended at step 4" in run_ranks(words, 1)


def test_checkpoints_wait_for_a_watcher(shards: Path, tmp_path: Path) -> None:
    """Nobody watches here: what was not scored stays, as far as it may, and the run says that it waits."""
    classes, run = write_classes(tmp_path / "classes"), RunFolder(tmp_path / "run")
    settings = {"monitor__mode": "watch", "checkpoint__every_steps": 1, "checkpoint__keep_last": 1}
    words = monitored(run.path, shards, classes, **settings, schedule__total="6 steps", checkpoint__keep_unscored=3)
    said = run_ranks(words, 2)
    assert run.steps() == [6, 5, 4, 3, 0], "the start stays: the others are compared with it"
    assert "4 checkpoints wait for their score (step_0000002 to step_0000005)" in said
    assert "nothing to do" in run_ranks(words, 2)
    assert not run.evaluations.exists(), "without evaluations there is nothing to choose"


def start_with_bias(path: Path, bias: float) -> Path:
    """Weights of the tiny network whose features have so much in common."""
    torch.manual_seed(0)
    model = VisionTransformer(vit_config("vit_test", depth=2, image_px=28))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
        model.norm.bias.fill_(bias)
    torch.save(model.state_dict(), path)
    return path


def test_a_start_whose_features_all_point_the_same_way_is_told_of(shards: Path, tmp_path: Path) -> None:
    classes, said = write_classes(tmp_path / "classes"), {}
    for name, bias in (("apart", 0.0), ("alike", 100.0)):
        start, run = start_with_bias(tmp_path / f"{name}.pth", bias), RunFolder(tmp_path / name)
        steps = {"schedule__total": "1 steps", "warm_start__heads": "1 steps", "warm_start__ramp": "0 steps"}
        steps |= {"schedule__warmup": "0 steps", "schedule__freeze_last_layer": "0 steps"}
        run_ranks(monitored(run.path, shards, classes, init__weights=start, **steps), 1)
        said[name] = run.log.read_text()
        info = run.read_info()
        assert info is not None and info.patience_from_step == 1, "for whoever evaluates beside the run"
    untrained = RunFolder(tmp_path / "untrained")  # all its features are alike, and there is nothing to recenter
    run_ranks(monitored(untrained.path, shards, classes, regression_guard__when="always", **steps), 1)
    assert "100.0% of the length of the start's features is common to all images" in said["alike"]
    assert "--crop-px 28" in said["alike"]
    assert "common to all" not in said["apart"] + untrained.log.read_text()
