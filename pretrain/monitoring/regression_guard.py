"""Does training do harm? The score of step 0, that of the starting weights themselves, is the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eval_knn import Evaluation, SelectionConfig, fell_below, paired_bootstrap
from panendofm.records.evaluation import FallRule


@dataclass(frozen=True)
class RollbackCause:
    """Why a run must not go on as it is, and the steps whose checkpoints it may be rolled back to."""

    why: str
    good_steps: tuple[int, ...]


def find_regression(history: Sequence[Evaluation], margin: float, selection: SelectionConfig) -> RollbackCause | None:
    """Whether the newest evaluation is below the start's: by more than the margin, and by more than noise.

    An earlier fall that training has made good again is none: to undo it would be to undo what came after it, the best
    checkpoint included. Without an evaluation of step 0 there is nothing to compare with.
    """
    if not history or history[0].step != 0:
        return None
    start, now, metric = history[0], history[-1], selection.metric
    if not fell_below(start, now, _rule(margin, selection)):
        return None
    _, low, high = paired_bootstrap(now, start, metric, selection.confidence, selection.bootstrap_samples)
    interval = "" if math.isnan(low) else f" (interval of the difference {low:.4f} to {high:.4f})"
    why = (
        f"{metric} fell from {_score(start, metric):.4f} at the start to {_score(now, metric):.4f} at "
        f"step {now.step:,}{interval}, more than regression_guard.margin={margin:g}"
    )
    return RollbackCause(why, good_steps(history, margin, selection))


def good_steps(history: Sequence[Evaluation], margin: float, selection: SelectionConfig) -> tuple[int, ...]:
    """Steps that a run may be rolled back to: neither below the start nor vetoed by another set."""
    rule = _rule(margin, selection)
    knows_start = bool(history) and history[0].step == 0
    candidates = [one for one in history if not one.vetoed and not (knows_start and fell_below(history[0], one, rule))]
    return tuple(one.step for one in candidates if one.step is not None)


def _rule(margin: float, selection: SelectionConfig) -> FallRule:
    return FallRule(selection.metric, margin, selection.confidence, selection.bootstrap_samples)


def _score(evaluation: Evaluation, metric: str) -> float:
    """An undefined value counts as the worst."""
    value = evaluation.values[metric]
    return -math.inf if value is None or math.isnan(value) else value
