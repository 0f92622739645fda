"""The experiment on a made-up start: every way trains, what is finished stays, tables say what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.warm_start import experiment as module
from experiments.warm_start import start
from experiments.warm_start.arms import ARMS, Arm
from experiments.warm_start.experiment import Experiment, run_in_process
from experiments.warm_start.findings import COLUMNS, draw_curves, markdown_table, rows_of
from panendofm.records.evaluation import encode_ranks
from panendofm.runtime.files import read_json


def history(*shares: float, queries: int = 40) -> list[dict[str, Any]]:
    """Evaluations in which that share of the queries is right, each alone in its group."""
    points = []
    for number, share in enumerate(shares):
        ranks = (np.arange(queries) >= share * queries).astype(np.int64)
        groups = " ".join(map(str, range(queries)))
        point = {"step": 20 * number, "top1": share, "ranks": encode_ranks(ranks), "groups": groups, "rankme": 1.0}
        points.append(point)
    return points


def results() -> list[dict[str, Any]]:
    """The recipe falls, every other way stays; two seeds each."""
    return [
        {"arm": arm, "seed": seed, "curves": {"target": history(0.8, 0.5 if arm == "recipe" else 0.8)}}
        for seed in (0, 1)
        for arm in ARMS
    ]


def test_a_way_is_compared_with_its_start_and_with_the_recipe() -> None:
    rows = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows_of(results(), ARMS, "target")}
    assert list(rows) == [arm.title for arm in ARMS.values()]
    recipe, ours = rows[ARMS["recipe"].title], rows[ARMS["ours"].title]
    assert recipe["end, by seed"] == "0.500 0.500" and recipe["lowest against the start"] == "-30.0"
    assert recipe["against the start"].startswith("-30.0 (") and recipe["against the recipe as it is"] == ""
    assert ours["against the start"] == "+0.0 (+0.0 to +0.0)"
    assert ours["against the recipe as it is"].startswith("+30.0 (")


def test_the_table_and_the_curves_are_written(tmp_path: Path) -> None:
    assert markdown_table(results(), ARMS, "target").count("\n") == len(ARMS) + 1
    draw_curves(results(), ARMS, {"target": "target"}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arm", ARMS)
def test_every_way_is_a_valid_setting(arm: str, tmp_path: Path) -> None:
    assert Experiment(tmp_path, None).config(list(ARMS[arm].words)).warm_start.when == (
        "never" if arm == "recipe" else "auto"
    )


def test_a_way_is_trained_scored_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest size: two steps on a few images of each class."""
    for name in ("LABELED_SOURCE", "LABELED_TARGET", "UNLABELED_TARGET", "FOR_THE_START"):
        monkeypatch.setattr(module, name, 4)
    monkeypatch.setattr(module, "STEPS", 2)
    monkeypatch.setattr(module, "EVERY_STEPS", 1)
    monkeypatch.setattr(start, "STEPS", 3)
    monkeypatch.setattr(start, "BATCH", 8)
    at_once = [f"schedule.{key}=0 steps" for key in ("warmup", "teacher_temperature_warmup", "freeze_last_layer")]
    monkeypatch.setitem(ARMS, "recipe", Arm("the recipe as it is", (*ARMS["recipe"].words, *at_once)))
    Experiment(tmp_path, None).prepare()
    done = run_in_process(tmp_path, None, "recipe", 0)
    found = read_json(done)
    assert (found["arm"], found["seed"], found["roll_backs"]) == ("recipe", 0, [])
    assert {name: [point["step"] for point in curve] for name, curve in found["curves"].items()} == {
        "target": [0, 1, 2],
        "source": [0, 1, 2],
    }
    assert "step 2" in (tmp_path / "logs" / "recipe_0.log").read_text()
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert run_in_process(tmp_path, None, "recipe", 0) == done and not (tmp_path / "runs").exists()
