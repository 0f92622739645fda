"""Selection, early stopping and the regression guard on the same histories: none undoes what another one keeps."""

from __future__ import annotations

import pytest
from knn_histories import COLLAPSING, FALLING, FLAT, RISING, recorded

from eval_knn import Evaluation, SelectionConfig, select, should_stop
from pretrain.monitoring.regression_guard import find_regression

MARGIN = 0.02
CONFIG = SelectionConfig(patience_evaluations=3)


def rollbacks_of(history: list[Evaluation]) -> list[tuple[int, ...] | None]:
    """After each evaluation: the steps that the guard would go back to."""
    causes = [find_regression(history[:n], MARGIN, CONFIG) for n in range(1, len(history) + 1)]
    return [None if cause is None else cause.good_steps for cause in causes]


def stops_of(history: list[Evaluation]) -> list[bool]:
    return [should_stop(history[:n], CONFIG).stop for n in range(1, len(history) + 1)]


def test_a_falling_run_goes_back_and_stops() -> None:
    """The second score is within the noise of the start, so the guard waits, but `best` does not follow it."""
    assert select(FALLING, CONFIG).evaluation.checkpoint == "step_0"
    assert rollbacks_of(FALLING) == [None, None, (0, 1), (0, 1)]
    assert stops_of(FALLING) == [False, False, False, True]


def test_a_plateau_is_left_alone_until_the_patience_is_used_up() -> None:
    assert select(FLAT, CONFIG).evaluation.checkpoint == "step_1"
    assert rollbacks_of(FLAT) == [None] * len(FLAT)
    assert stops_of(FLAT) == [False] * 4 + [True] * 4


def test_a_rising_run_goes_on() -> None:
    assert select(RISING, CONFIG).evaluation.checkpoint == "step_5"
    assert rollbacks_of(RISING) == [None] * len(RISING)
    assert not any(stops_of(RISING))


@pytest.mark.parametrize("history", [FALLING, FLAT, RISING, COLLAPSING, recorded([0.766, 0.70, 0.80, 0.60])])
def test_the_guard_never_goes_back_beyond_the_best(history: list[Evaluation]) -> None:
    """Also when the guard sees several scores at once: a watcher's come late, and a resumed run may turn it on."""
    for n in range(1, len(history) + 1):
        cause, best = find_regression(history[:n], MARGIN, CONFIG), select(history[:n], CONFIG).evaluation.step
        assert cause is None or cause.good_steps[-1] >= (best or 0)


def test_a_fall_that_was_made_good_before_anybody_saw_it_is_not_undone() -> None:
    history = recorded([0.766, 0.70, 0.80])
    assert select(history, CONFIG).evaluation.checkpoint == "step_2"
    assert find_regression(history, MARGIN, CONFIG) is None
