"""Bootstrap over groups: intervals of one model's metrics, and paired tests between models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.classification.metrics import Floats, Targets, weighted_roc_auc

# Replicates that are computed at once; bounds the memory at this many rows of weights.
_BLOCK = 100


class Interval(NamedTuple):
    low: float
    high: float


def group_weights(groups: NDArray[np.int64], replicates: int, seed: int) -> Floats:
    """How often each sample is drawn [R, N] when whole groups are drawn with replacement."""
    names, member = np.unique(groups, return_inverse=True)
    random = np.random.default_rng(seed)
    shares = np.full(len(names), 1 / max(len(names), 1))
    weights = np.empty((replicates, len(groups)), np.float64)
    # Row by row bounds the memory. Golden intervals were drawn by this very sequence of numbers.
    for row in weights:
        row[:] = random.multinomial(len(names), shares)[member]
    return weights


def macro_auc_replicates(targets: Targets, scores: Floats, weights: Floats, classes: NDArray[np.bool_]) -> Floats:
    """Macro-AUC over the given classes under each row of weights [R], without classes that a replicate lost."""
    parts = []
    for start in range(0, len(weights), _BLOCK):
        areas = weighted_roc_auc(targets[:, classes], scores[:, classes], weights[start : start + _BLOCK])
        known = ~np.isnan(areas)
        count = known.sum(1)
        total = np.where(known, areas, 0.0).sum(1)
        parts.append(np.divide(total, count, out=np.full(len(areas), np.nan), where=count > 0))
    return np.concatenate(parts) if parts else np.zeros(0)


def percentile_interval(replicates: Floats, level: float = 0.95) -> Interval | None:
    """The middle share of the replicates; None when there are none."""
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def paired_p_value(replicates_a: Floats, replicates_b: Floats) -> float:
    """Two-sided bootstrap p-value that two models are equal; both must come from the same weights.

    Twice the smaller share of replicates in which the difference has or lacks its sign, one added to both counts, so
    that a finite number of replicates never claims certainty. Equal models give 1.
    """
    difference = replicates_a - replicates_b
    difference = difference[~np.isnan(difference)]
    if not len(difference):
        return float("nan")
    below = (np.sum(difference <= 0) + 1) / (len(difference) + 1)
    above = (np.sum(difference >= 0) + 1) / (len(difference) + 1)
    return float(min(1.0, 2 * min(below, above)))
