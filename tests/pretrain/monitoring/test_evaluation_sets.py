"""Several labeled sets in one run: one selects, the others are shown and may veto."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from engine_runs import metrics_of, monitored, run_ranks, write_classes
from knn_histories import FLAT, RISING, recorded

from eval_knn import EvalConfig, Evaluation, NamedSetConfig, SelectionConfig, must_stay, select, should_stop
from eval_knn.watch import watch
from launch.report.collect import collect
from launch.report.page import page_of
from panendofm.records.evaluation import (
    evaluated_checkpoints,
    evaluation_path,
    read_evaluations,
    read_selection,
    witnesses_of,
)
from panendofm.records.run import RunFolder, step_name
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.config import MonitorConfig, PretrainConfig
from pretrain.monitoring.regression_guard import find_regression, good_steps

CONFIG = SelectionConfig(patience_evaluations=3)


def with_vetoes(history: list[Evaluation], *numbers: int) -> list[Evaluation]:
    return [replace(one, vetoed="it fell" if i in numbers else "") for i, one in enumerate(history)]


def test_the_best_that_nobody_vetoes_is_chosen_and_kept() -> None:
    vetoed = with_vetoes(RISING, 4, 5)
    choice = select(vetoed, CONFIG)
    assert choice.evaluation.checkpoint == choice.highest == "step_3"
    assert choice.why.endswith("; vetoed: step_4, step_5")
    assert must_stay(vetoed, CONFIG) == {"step_3"}, "a vetoed checkpoint may go, however high it scored"
    assert select(RISING, CONFIG).evaluation.checkpoint == "step_5"


@pytest.mark.parametrize("length", range(1, len(RISING) + 1))
def test_a_history_without_vetoes_is_judged_as_before(length: int) -> None:
    for history in (RISING[:length], FLAT[:length]):
        assert select(with_vetoes(history), CONFIG) == select(history, CONFIG)
        assert good_steps(history, 0.02, CONFIG) == tuple(range(len(history)))


def test_a_rise_that_is_vetoed_is_no_gain() -> None:
    """The selecting score rises all the time, but nothing after step 1 could be chosen."""
    vetoed = with_vetoes(RISING, 2, 3, 4, 5)
    assert not any(should_stop(RISING[:n], CONFIG).stop for n in range(1, 7))
    assert [should_stop(vetoed[:n], CONFIG).stop for n in range(1, 7)] == [False] * 4 + [True] * 2
    assert "(step_1) for 4 evaluations" in should_stop(vetoed, CONFIG).why
    recovered = with_vetoes(RISING, 2, 3, 4)
    assert not should_stop(recovered, CONFIG).stop, "the witness has recovered, and the score is a gain"


def test_a_history_in_which_all_is_vetoed_has_no_choice() -> None:
    """The start was scored on the witness alone: somebody has removed its result on the selecting set."""
    vetoed = with_vetoes(RISING[1:], *range(5))
    assert must_stay(vetoed, CONFIG) == must_stay([], CONFIG) == set()
    assert good_steps(vetoed, 0.02, CONFIG) == ()
    with pytest.raises(UserError, match="every evaluated checkpoint is vetoed"):
        select(vetoed, CONFIG)


def test_a_run_is_not_rolled_back_to_what_is_vetoed() -> None:
    history = with_vetoes(recorded([0.70, 0.75, 0.78, 0.50]), 2)
    cause = find_regression(history, 0.02, CONFIG)
    assert cause is not None and cause.good_steps == (0, 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`lesions`: bright and dark noise. `tints`: eight tints, which a wrecked network can't tell apart."""
    folder, rng = tmp_path_factory.mktemp("labeled"), np.random.default_rng(0)
    write_classes(folder / "lesions")
    for number in range(8):
        (folder / "tints" / f"tint{number}").mkdir(parents=True)
        angle = 2 * np.pi * (number / 8 + np.array([0, 1, 2]) / 3)
        for i in range(6):
            image = np.clip(rng.normal(128 + 50 * np.cos(angle), 40, (40, 40, 3)), 0, 255).astype(np.uint8)
            (folder / "tints" / f"tint{number}" / f"{i}.jpg").write_bytes(simplejpeg.encode_jpeg(image))
    return folder


def one_set(data: Path, name: str, **further: Any) -> dict[str, Any]:
    settings = {
        "data__path": data / name,
        "data__clean": "false",
        "cache": data / "cache",
        "ks": "[1,3]",
        "features__threads": 1,
        "split__leave_one_group_out": True,
        **further,
    }
    return {f"evaluations__{name}__{key}": value for key, value in settings.items()}


def sets_of(data: Path, **further: Any) -> dict[str, Any]:
    """Features spread in the first step and lose their meaning: RankMe selects step 2, and the tints object."""
    return {
        **one_set(data, "lesions", selection__metric="rankme", selection__patience_evaluations=0),
        # No mean over queries, so that the margin alone decides.
        **one_set(data, "tints", selection__metric="mcc_k3", veto_margin=0.02),
        "select_by": "lesions",
        **further,
    }


def words(run: Path, shards: Path, data: Path, **changes: Any) -> list[str]:
    wrecking = {"schedule__base_lr": 500.0, "schedule__total": "6 steps", "schedule__momentum_start": 0.5}
    sets = {f"monitor__{name}": value for name, value in sets_of(data).items()}
    return monitored(run, shards, data / "lesions", **{**wrecking, "monitor__every_steps": 2, **sets, **changes})


@pytest.fixture(scope="module")
def run(shards: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A real training with two sets, interrupted once."""
    run = RunFolder(tmp_path_factory.mktemp("sets") / "run")
    settings = {"checkpoint__keep_last": 1, "checkpoint__every_steps": 2}
    run_ranks(words(run.path, shards, data, run__stop_at="2 steps", **settings), 2)
    run_ranks(words(run.path, shards, data, **settings), 2)
    return run


def scores(run: RunFolder, name: str | None, metric: str) -> dict[int | None, float | None]:
    return {document.step: document.values[metric] for document in read_evaluations(run, name)}


def test_every_set_is_scored_at_every_evaluation(run: RunFolder) -> None:
    assert witnesses_of(run) == ["tints"]
    assert list(scores(run, None, "rankme")) == list(scores(run, "tints", "mcc_k3")) == [0, 2, 4, 6]
    assert {d.evaluation_set for d in read_evaluations(run)} == {"lesions"}
    logged = {line["step"]: line for line in metrics_of(run.path) if "knn" in line}
    assert list(logged) == [0, 2, 4, 6]
    for step, line in logged.items():
        assert line["knn"]["rankme"] == scores(run, None, "rankme")[step]
        assert list(line["witnesses"]) == ["tints"]
        assert line["witnesses"]["tints"]["mcc_k3"] == scores(run, "tints", "mcc_k3")[step]
    assert re.search(r"step 6: kNN rankme .*\n.*step 6: tints mcc_k3 ", run.log.read_text())


def test_one_set_selects_and_the_other_vetoes(run: RunFolder) -> None:
    selecting, witness = scores(run, None, "rankme"), scores(run, "tints", "mcc_k3")
    fallen = [step for step, value in witness.items() if (witness[0] or 0) - (value or 0) > 0.02]
    highest = max(selecting, key=lambda step: selecting[step] or 0)
    assert highest in fallen, "without the veto the witness would have lost"
    chosen = read_selection(run)
    assert chosen is not None and chosen.evaluation_set == "lesions"
    assert list(chosen.vetoed) == [step_name(step or 0) for step in fallen]
    assert (
        f"mcc_k3 on tints fell from {witness[0]:.4f} to {witness[highest]:.4f}"
        in chosen.vetoed[step_name(highest or 0)]
    )
    allowed = {step: value for step, value in selecting.items() if step not in fallen}
    best = max(allowed, key=lambda step: allowed[step] or 0)
    assert run.best.resolve() == run.checkpoint(best or 0).resolve()
    assert run.steps() == [6, best], "the vetoed one of the highest score is not kept"


def test_both_sets_are_on_the_report_page(run: RunFolder) -> None:
    page = page_of(collect(run))
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
    assert "lesions selects rankme" in text
    assert "tints vetoes a fall of more than 0.02 mcc_k3" in text
    assert "kNN on tints (band: 95% interval)" in text
    assert "Evaluated on lesions: " in text and "Evaluated on tints: " in text
    chosen = read_selection(run)
    assert chosen is not None
    for checkpoint, why in chosen.vetoed.items():
        assert f"{checkpoint} {why}" in text


def test_a_run_that_was_killed_between_two_sets_scores_both_again(
    run: RunFolder, shards: Path, data: Path, tmp_path: Path
) -> None:
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(run.path, copy.path, symlinks=True)
    before = read_selection(copy)
    evaluation_path(copy, step_name(6)).unlink()  # the witness's is written first
    assert step_name(6) in evaluated_checkpoints(copy)
    assert "nothing to do" not in run_ranks(words(copy.path, shards, data), 1)
    assert scores(copy, None, "rankme").keys() == {0, 2, 4, 6}
    assert read_selection(copy) == before


def test_a_look_by_hand_neither_moves_best_nor_forgets_the_veto(run: RunFolder, data: Path, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(run.path, copy.path, symlinks=True)
    asked = ["split.leave_one_group_out=true", "ks=[1,3]", "selection.metric=top1_k3", f"cache={data / 'cache'}"]
    command = [sys.executable, "-m", "eval_knn", str(copy.path), f"data.path={data / 'lesions'}", *asked]
    subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[3])
    assert read_selection(copy) == read_selection(run)
    assert copy.best.readlink() == run.best.readlink()


def test_a_watcher_scores_all_sets_and_selects_as_the_training_does(
    run: RunFolder, shards: Path, data: Path, tmp_path: Path
) -> None:
    watched = RunFolder(tmp_path / "run")
    run_ranks(words(watched.path, shards, data, monitor__mode="watch", checkpoint__every_steps=2), 1)
    assert watched.steps() == [6, 4, 2, 0] and not watched.evaluations.exists()
    overrides = [f"watcher.{name.replace('__', '.')}={value}" for name, value in sets_of(data).items()]
    overrides += ["watcher.idle_seconds=0", "watcher.poll_seconds=0.1"]
    watch(watched.path, load_config(EvalConfig, None, overrides))
    ours, theirs = read_selection(watched), read_selection(run)
    assert ours is not None and theirs is not None
    assert (ours.checkpoint, list(ours.vetoed)) == (theirs.checkpoint, list(theirs.vetoed))
    assert scores(watched, "tints", "mcc_k3").keys() == {0, 2, 4, 6}


def test_a_rollback_takes_the_results_of_all_sets_away(shards: Path, data: Path, tmp_path: Path) -> None:
    """The tints select here and fall; the other set is a witness that only looks on."""
    run = RunFolder(tmp_path / "run")
    guard = {"regression_guard__when": "always", "regression_guard__lr_factor": 1e-9}
    tints = {"monitor__select_by": "tints", "monitor__evaluations__tints__veto_margin": None}
    said = run_ranks(words(run.path, shards, data, **guard, **tints), 1)
    assert "rolled back from step" in said and "done: 6 steps" in said
    (entry,) = run.read_rollbacks()
    undone = run.rolled_back(entry.number)
    names = {f"knn_{step_name(entry.from_step)}.json"}
    assert {path.name for path in undone.glob("knn_*.json")} == names
    assert {path.name for path in (undone / "lesions").glob("knn_*.json")} == names
    assert list(scores(run, None, "mcc_k3")) == list(scores(run, "lesions", "rankme")) == [0, 2, 4, 6]


def test_another_selecting_set_is_refused(run: RunFolder, shards: Path, data: Path) -> None:
    other = {"monitor__select_by": "tints", "monitor__evaluations__tints__veto_margin": None}
    said = run_ranks(words(run.path, shards, data, **other), 2, expect=2)
    assert "were selected by 'lesions' so far, not by 'tints'; restore select_by" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.evaluations.update({"a b": NamedSetConfig()}), "'a b' can't name a set"),
        (lambda c: c.evaluations.update({"knn_x": NamedSetConfig()}), "'knn_x' can't name a set"),
        (lambda c: setattr(c, "select_by", "other"), r"no such set in evaluations \(witness\)"),
        (lambda c: setattr(c, "select_by", "witness"), "this set selects, so it can't veto"),
    ],
)
def test_sets_that_contradict_each_other(change: Callable[[MonitorConfig], object], says: str) -> None:
    config = MonitorConfig(evaluations={"witness": NamedSetConfig(veto_margin=0.1)})
    assert config.sets.selecting_name == "" and config.sets.witnesses["witness"].data.clean is True
    change(config)
    with pytest.raises(UserError, match=says):
        config.check()


def test_the_single_form_is_the_set_that_selects(tmp_path: Path) -> None:
    overrides = ["run.dir=r", "data.shards=s", "monitor.evaluation.data.path=kvasir"]
    config = load_config(PretrainConfig, None, overrides).monitor
    assert (config.sets.selecting, config.sets.witnesses) == (config.evaluation, {})
    both = load_config(PretrainConfig, None, [*overrides, "monitor.evaluations.natural.data.path=photos"]).monitor
    assert both.sets.selecting.data.path == "kvasir" and both.sets.witnesses["natural"].data.path == "photos"
    assert both.sets.witnesses["natural"].veto_margin is None


def test_documents_of_before_there_were_several_sets_are_read(run: RunFolder, tmp_path: Path) -> None:
    old = RunFolder(tmp_path / "run")
    shutil.copytree(run.path, old.path, symlinks=True)
    shutil.rmtree(old.evaluations / "tints")
    for path in old.evaluations.glob("knn_*.json"):
        values = json.loads(path.read_text())
        for key in ("evaluation_set", "veto", "vetoed"):
            values.pop(key, None)
        path.write_text(json.dumps(values))
    chosen = read_selection(old)
    assert chosen is not None and chosen.vetoed == {}
    text = page_of(collect(old))
    assert "kNN (band: 95% interval)" in text or "RankMe" in text
    assert "selects" not in text, "one set needs no table"
