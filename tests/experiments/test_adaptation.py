"""The rules of the adaptation experiment, as its protocol states them."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.adaptation.arms import ARMS, PRESENTATIONS_PER_STEP, QUARTERS
from experiments.adaptation.findings import Quarter, change, chosen_arms, halves_of, over_seeds, read_start, tuning_rows
from experiments.adaptation.runs import RECIPE, RESULTS, Point, StartResult, decode_hits, encode_hits
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig
from pretrain.adapt.judge import Difference

EMPTY = Point(0, 0, "", "", 0.0, 0.0)


def quarter(score: float) -> Quarter:
    nothing = Difference(score, 0.0, 0.0)
    return Quarter(1, 1, nothing, nothing)


def test_halves_share_no_group_and_keep_the_classes() -> None:
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(200, size=600))
    labels = groups % 8
    start = StartResult(EMPTY, EMPTY, " ".join(map(str, labels)), " ".join(map(str, groups)))
    halves = halves_of(start)
    assert not set(groups[halves.tuning]) & set(groups[halves.report])
    for label in range(8):
        share = halves.tuning[labels == label].mean()
        assert 0.35 < share < 0.65


def test_the_interval_counts_seeds_and_groups() -> None:
    """Equal changes in every image: only seeds differ, so the interval is that of the seeds."""
    changes = [np.full(50, value) for value in (0.0, 0.1, 0.2, 0.3)]
    found = over_seeds(changes, np.arange(50), np.ones(50, bool))
    assert found.value == pytest.approx(0.15)
    assert 0.0 <= found.low < 0.08
    assert 0.22 < found.high <= 0.3
    one = over_seeds(changes[:1], np.arange(50), np.ones(50, bool))
    assert one.low == one.high == 0.0


def test_only_the_half_counts() -> None:
    part = np.arange(40) < 10
    rows = np.where(part, 1.0, -1.0)
    assert over_seeds([rows], np.arange(40), part).value == 1.0


def test_change_is_signed() -> None:
    before = Point(0, 0, encode_hits(np.array([True, True, False])), "000", 0.0, 0.0)
    after = Point(1, 1, encode_hits(np.array([True, False, True])), "000", 0.0, 0.0)
    assert change(after, before, "knn").tolist() == [0.0, -1.0, 1.0]
    assert decode_hits("0110").tolist() == [False, True, True, False]


def test_two_close_arms_must_differ_in_objective() -> None:
    curves = {"I1": [quarter(0.050)], "I2": [quarter(0.048)], "D2": [quarter(0.046)]}
    assert chosen_arms(curves) == ["I1", "D2"]
    curves["D2"] = [quarter(0.040)]  # too far behind
    assert chosen_arms(curves) == ["I1", "I2"]
    curves["I2"] = [quarter(0.010), quarter(0.049)]  # its best quarter counts
    assert chosen_arms(curves) == ["I1", "I2"]


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_a_valid_run_of_its_length(name: str) -> None:
    arm = ARMS[name]
    words = ["run.dir=x", "data.shards=x", "init.weights=x", f"schedule.total={arm.steps} steps", *arm.words]
    config = load_config(PretrainConfig, RECIPE, words)
    assert 2 * config.batch.images == PRESENTATIONS_PER_STEP
    assert abs(arm.steps * PRESENTATIONS_PER_STEP - arm.presentations) < PRESENTATIONS_PER_STEP
    assert arm.quarter_steps * (QUARTERS - 1) < arm.steps <= arm.quarter_steps * QUARTERS


def test_the_kept_results_give_the_tables() -> None:
    """The README's table is made of these files."""
    rows = tuning_rows(RESULTS)
    assert len(rows) % QUARTERS == 0
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8").replace("−", "-")
    for row in rows:
        for cell in row[3:6]:
            assert cell in readme, row
    assert len(decode_hits(read_start(RESULTS).recentered.knn)) == 1200
