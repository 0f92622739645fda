"""Risk–coverage: the share of wrong answers when only the surest are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def risk_at_coverage(
    confidence: Floats, right: NDArray[np.bool_], coverages: Floats, weights: Floats | None = None
) -> Floats:
    """Share of wrong answers among the surest `coverages` [K] of all, as [K], or [R, K] under weights [R, N].

    Equally sure answers are taken together in parts, so that their order does not matter.
    """
    order = np.argsort(-confidence, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(confidence[order]) != 0]) if len(order) else order
    w = (np.ones((1, len(order))) if weights is None else weights)[:, order]
    size = np.add.reduceat(w, starts, axis=1)  # [R, distinct confidences]
    wrong = np.add.reduceat(w * ~right[order], starts, axis=1)
    edges = np.concatenate([np.zeros((len(w), 1)), np.cumsum(size, axis=1)], axis=1)
    errors = np.concatenate([np.zeros((len(w), 1)), np.cumsum(wrong, axis=1)], axis=1)
    result = np.full((len(w), len(coverages)), np.nan)
    for i in range(len(w)):
        asked = coverages * edges[i, -1]
        # Where a replicate left out a confidence, edges repeat: interpolation needs them once.
        keep = np.r_[True, np.diff(edges[i]) > 0]
        known = asked > 0
        result[i, known] = np.interp(asked[known], edges[i][keep], errors[i][keep]) / asked[known]
    return result if weights is not None else np.asarray(result[0])


def area_under_risk(confidence: Floats, right: NDArray[np.bool_]) -> float:
    """Mean risk over all coverages 1/N, 2/N … 1."""
    shares = np.arange(1, len(confidence) + 1) / len(confidence)
    return float(risk_at_coverage(confidence, right, shares).mean())
