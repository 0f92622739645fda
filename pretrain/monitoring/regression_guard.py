"""Does training do harm? The score of step 0, that of the starting weights themselves, is the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eval_knn import Evaluation, SelectionConfig, paired_bootstrap


@dataclass(frozen=True)
class RollbackCause:
    """Why a run must not go on as it is, and the steps whose checkpoints it may be rolled back to."""

    why: str
    good_steps: tuple[int, ...]


def find_regression(history: Sequence[Evaluation], margin: float, selection: SelectionConfig) -> RollbackCause | None:
    """Whether the newest evaluation is below the start's: by more than the margin, and by more than noise.

    An earlier fall that training has made good again is none: to undo it would be to undo what came after it, the best
    checkpoint included. Noise is that of the paired bootstrap over queries. Where it is not known (a metric that is no
    mean over queries), the margin alone decides. Without an evaluation of step 0 there is nothing to compare with.
    """
    if not history or history[0].step != 0:
        return None
    start, now, metric = history[0], history[-1], selection.metric
    if not _is_fall(start, now, margin, selection):
        return None
    _, low, high = paired_bootstrap(now, start, metric, selection.confidence, selection.bootstrap_samples)
    interval = "" if math.isnan(low) else f" (interval of the difference {low:.4f} to {high:.4f})"
    why = (
        f"{metric} fell from {_score(start, metric):.4f} at the start to {_score(now, metric):.4f} at "
        f"step {now.step:,}{interval}, more than regression_guard.margin={margin:g}"
    )
    good = (e.step for e in history if e.step is not None and not _is_fall(start, e, margin, selection))
    return RollbackCause(why, tuple(good))


def _is_fall(start: Evaluation, now: Evaluation, margin: float, selection: SelectionConfig) -> bool:
    if not _score(start, selection.metric) - _score(now, selection.metric) > margin:
        return False
    _, _, high = paired_bootstrap(now, start, selection.metric, selection.confidence, selection.bootstrap_samples)
    return not high >= 0  # nan: the noise is not known


def _score(evaluation: Evaluation, metric: str) -> float:
    """An undefined value counts as the worst."""
    value = evaluation.values[metric]
    return -math.inf if value is None or math.isnan(value) else value
