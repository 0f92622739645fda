"""Selection and stopping on recorded histories, as docs/explanation/selection.md describes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from knn_histories import COLLAPSING, FALLING, FLAT, QUERIES, RISING, SATURATED, recorded

from eval_knn import EvalConfig
from eval_knn.config import SelectionConfig
from eval_knn.selection import Evaluation, against_start, must_stay, paired_bootstrap, select, should_stop
from panendofm.records.evaluation import encode_ranks
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

PUBLISHED = Path(__file__).resolve().parents[2] / "configs" / "eval" / "kvasir_published.yaml"


def test_rising_takes_the_last_and_goes_on() -> None:
    choice = select(RISING)
    assert choice.index == 5 and "highest of 6" in choice.why and "interval" in choice.why
    assert not should_stop(RISING, SelectionConfig(patience_evaluations=2)).stop
    start, previous = choice.comparisons
    assert (start.role, start.checkpoint, start.verdict) == ("start", "step_0", "better beyond noise")
    assert start.difference == pytest.approx(0.33)
    assert (previous.role, previous.checkpoint) == ("previous", "step_4")


def test_flat_stays_at_its_top_within_the_stated_gain_and_stops() -> None:
    choice = select(FLAT)
    assert choice.equals == ["step_1", "step_3", "step_6"], "within 0.002 of 0.704"
    assert choice.index == 1 and "top1_k20 0.704 decides" in choice.why
    asked = select(FLAT, SelectionConfig(tie_breaks=["rankme"]))
    assert asked.index == 3 and "rankme 62 decides" in asked.why, "the 64 of step_2 is more than 0.002 below"
    assert {c.verdict for c in choice.comparisons} == {"no difference beyond noise"}
    assert [should_stop(FLAT[:n], SelectionConfig(minimum_gain=0.01)).stop for n in range(1, 9)] == [False] * 5 + [
        True
    ] * 3


def test_collapsing_takes_the_peak_and_stops() -> None:
    choice = select(COLLAPSING)
    assert choice.index == 2 and choice.equals == ["step_2"]
    assert [c.verdict for c in choice.comparisons] == ["better beyond noise"] * 3
    assert [c.role for c in choice.comparisons] == ["start", "previous", "next"]
    config = SelectionConfig(patience_evaluations=3)
    assert [should_stop(COLLAPSING[:n], config).stop for n in range(1, 9)] == [False] * 5 + [True] * 3
    assert "step_2" in should_stop(COLLAPSING, config).why


def test_saturated_top5_is_decided_by_top1() -> None:
    choice = select(SATURATED, load_config(EvalConfig, PUBLISHED).selection)
    assert choice.equals == ["step_1", "step_2", "step_3"], "step_0 has a lower top-5"
    assert choice.index == 2 and "top1_k20 0.9 decides" in choice.why
    # Early stopping by the saturated metric stops while top-1 still rises: a reason why it is not the default.
    still_rising = recorded([0.80, 0.86, 0.90, 0.93], top5=[1.0, 1.0, 1.0, 1.0])
    published = SelectionConfig(metric="top5_k100", patience_evaluations=3)
    assert should_stop(still_rising, published).stop
    assert not should_stop(still_rising, SelectionConfig(patience_evaluations=3)).stop


def test_exact_equality_and_earliest_as_the_last_word() -> None:
    history = recorded([0.7, 0.7, 0.6])
    choice = select(history, SelectionConfig(equal_within=0.0))
    assert choice.equals == ["step_0", "step_1"] and choice.index == 0 and "earliest" in choice.why


def test_the_other_numbers_of_neighbors_decide_between_equal_values() -> None:
    history = [
        Evaluation(name, step, {"top1_k10": at_10, "top1_k20": 0.7, "top1_k200": 0.6, "top5_k20": top5, "rankme": 9.0})
        for step, (name, at_10, top5) in enumerate([("a", 0.70, 0.99), ("b", 0.72, 0.90), ("c", 0.71, 0.99)])
    ]
    choice = select(history)
    assert choice.evaluation.checkpoint == "b" and "mean top1 over all k" in choice.why


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_a_falling_run_is_not_followed_downhill(keep: int) -> None:
    """Checkpoint by checkpoint, with the old ones removed as training removes them."""
    config, disk = SelectionConfig(), []
    for n in range(1, len(FALLING) + 1):
        history = FALLING[:n]
        disk.append(history[-1].checkpoint)
        stay = must_stay(history[:-1], config)
        disk = [name for name in disk if name in stay or name in disk[-keep:]]
        assert select(history, config, disk).evaluation.checkpoint == "step_0"
    assert against_start(FALLING, config)["step_3"].verdict == "worse beyond noise"
    assert should_stop(FALLING, SelectionConfig(patience_evaluations=3)).stop


def test_a_label_free_figure_that_was_asked_for_moves_the_choice_by_the_stated_gain_at_most() -> None:
    noisy = recorded([0.760, 0.759, 0.7585, 0.757, 0.756, 0.755], [30, 40, 50, 60, 70, 80])
    config = SelectionConfig(tie_breaks=["rankme"], equal_within=0.002)
    for n in range(1, len(noisy) + 1):
        chosen = select(
            noisy[:n], config, {e.checkpoint for e in noisy[max(0, n - 2) : n]} | must_stay(noisy[: n - 1], config)
        )
        assert 0.760 - (chosen.evaluation.values["top1_k20"] or 0) <= 0.002 + 1e-9
    assert must_stay(noisy, config) == {"step_0", "step_2"}, "the highest stays although another one is chosen"


def test_noise_around_a_plateau_stays_at_its_top_and_a_slow_rise_is_followed() -> None:
    random = np.random.default_rng(3)
    plateau = recorded([0.70, *(0.76 + random.normal(0, 0.004, 20)).round(3)])
    top = max(e.values["top1_k20"] or 0 for e in plateau)
    for n in range(2, len(plateau) + 1):
        chosen = select(plateau[:n]).evaluation.values["top1_k20"] or 0
        assert chosen == max(e.values["top1_k20"] or 0 for e in plateau[:n])
    assert select(plateau).evaluation.values["top1_k20"] == top
    slow = recorded([0.700 + 0.001 * n for n in range(30)])
    assert [select(slow[:n]).index for n in range(1, 31)] == list(range(30))


def test_nothing_below_the_start_beyond_noise_is_chosen_however_wide_the_gain() -> None:
    choice = select(FALLING, SelectionConfig(equal_within=0.2, tie_breaks=["rankme"]))
    assert choice.equals == ["step_0", "step_1"] and choice.evaluation.checkpoint == "step_1"


def test_a_best_that_was_removed_by_hand_is_named() -> None:
    choice = select(COLLAPSING, available={"step_3", "step_1", "step_7"})
    assert choice.evaluation.checkpoint == "step_1"
    assert "step_2 had 0.7800 and is gone" in choice.why
    near = recorded([0.700, 0.800, 0.799, 0.799, 0.500])
    one = select(near, available={"step_0", "step_2", "step_4"})
    assert one.evaluation.checkpoint == "step_2" and one.highest == "step_1"
    assert one.why.endswith("is within 0.002 of the highest; step_1 had 0.8000 and is gone")
    two = select(near, available={"step_2", "step_3"})
    assert "2 of 5 are within 0.002 of the highest (0.8000)" in two.why
    assert two.why.endswith("; step_1 had 0.8000 and is gone")
    assert "is gone" not in select(near, available={"step_1", "step_2"}).why
    with pytest.raises(UserError, match="none of the evaluated checkpoints"):
        select(COLLAPSING, available=set())


def test_small_rises_add_up() -> None:
    slow = recorded([0.700 + 0.001 * n for n in range(12)])
    assert not any(should_stop(slow[:n], SelectionConfig(minimum_gain=0.002)).stop for n in range(1, 13))
    assert should_stop(slow, SelectionConfig(minimum_gain=0.02)).stop


def test_no_stop_before_the_first_allowed_evaluation_and_when_off() -> None:
    falling = recorded([0.7, 0.5, 0.4, 0.3])
    assert should_stop(falling, SelectionConfig(patience_evaluations=1)).stop
    assert not should_stop(falling, SelectionConfig(patience_evaluations=1, first_stop_evaluation=5)).stop
    assert not should_stop(falling, SelectionConfig(patience_evaluations=0)).stop
    assert not should_stop([], SelectionConfig()).stop


def test_early_evaluations_use_up_no_patience_but_are_the_level_to_beat() -> None:
    """Steps 0 to 8: a warm start that ends at step 3 below the start, and climbs without ever coming back to it."""
    climbing = recorded([0.766, 0.700, 0.705, 0.710, 0.715, 0.720, 0.725, 0.730, 0.735])
    config = SelectionConfig(patience_evaluations=3)
    stops = [should_stop(climbing[:n], config, from_step=3).stop for n in range(1, 10)]
    assert stops == [False] * 6 + [True] * 3, "step 3 is the first that counts, 6 the third after it"
    assert "above 0.7660 (step_0) for 3 evaluations" in should_stop(climbing[:7], config, 3).why
    assert "begins at step 3" in should_stop(climbing[:3], config, 3).why
    assert "begins at step 3" in should_stop(climbing[:4], config, 3).why
    better = [*climbing[:6], *recorded([0.0] * 6 + [0.78, 0.77])[6:]]
    assert [should_stop(better[:n], config, 3).stop for n in (7, 8)] == [False, False], "above the start: a gain"


def test_paired_bootstrap_sees_what_unpaired_intervals_hide() -> None:
    """1.5% better on the very same queries is beyond noise, though each interval is 5% wide."""
    random = np.random.default_rng(0)
    right = random.random(QUERIES) < 0.75
    better = right.copy()
    better[np.flatnonzero(~right)[:15]] = True
    a, b = (
        Evaluation("x", 0, {"top1_k20": float(r.mean())}, {"20": encode_ranks(np.where(r, 0, 7))})
        for r in (better, right)
    )
    difference, low, high = paired_bootstrap(a, b, "top1_k20")
    assert difference == pytest.approx(0.015) and 0 < low < 0.015 < high
    assert paired_bootstrap(b, a, "top1_k20")[2] < 0


def test_groups_widen_the_paired_interval() -> None:
    a, b = recorded([0.75, 0.72])
    alone = paired_bootstrap(a, b, "top1_k20")
    groups = tuple(np.argsort(np.argsort(-np.frombuffer(b.ranks["20"].encode(), "u1"), kind="stable")) // 50)
    grouped = paired_bootstrap(Evaluation(a.checkpoint, 0, a.values, a.ranks, groups), b, "top1_k20")
    assert grouped[2] - grouped[1] > alone[2] - alone[1]


def test_a_missing_value_never_wins() -> None:
    history = [
        Evaluation("bad", 0, {"top1_k20": None, "rankme": 1.0}),
        Evaluation("good", 1, {"top1_k20": 0.2, "rankme": 1.0}),
    ]
    assert select(history, SelectionConfig(tie_breaks=[])).evaluation.checkpoint == "good"


def test_what_can_not_be_selected_from() -> None:
    with pytest.raises(UserError, match="no checkpoint was evaluated"):
        select([])
    with pytest.raises(UserError, match="step_0 was evaluated without top1_k50"):
        select(RISING, SelectionConfig(metric="top1_k50"))
    other = Evaluation("other", 9, RISING[0].values, RISING[0].ranks, split_sha256="another")
    with pytest.raises(UserError, match="different splits"):
        select([*RISING, other])
    with pytest.raises(UserError, match="'top2_k20' is not a metric"):
        SelectionConfig(metric="top2_k20").check()
    for config in (SelectionConfig(metric="alpha_req"), SelectionConfig(tie_breaks=["rankme", "alpha_req"])):
        with pytest.raises(UserError, match="alpha_req can't choose"):
            config.check()
