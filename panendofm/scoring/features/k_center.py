"""Representative samples: greedy k-center on unit features, after outliers have been cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Equal distances differ by rounding; the lowest index must win all the same.
_DECIMALS = 12
_NEIGHBORS = 5
_FEWEST_TO_CUT = 20


@dataclass(frozen=True)
class Chosen:
    indices: list[int]  # in the order in which they were chosen
    radius: float  # largest distance of any sample to its nearest chosen one


def unit(features: NDArray[np.floating]) -> Floats:
    """Rows of length 1; a zero row stays zero."""
    rows = np.asarray(features, np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), np.float64)


def k_center(features: NDArray[np.floating], k: int, groups: Integers | None = None) -> Chosen:
    """Up to k rows of [N, D]: the one nearest to the mean direction, then always the one farthest from the chosen ones.

    With groups [N], one row of each group comes before a second of any. The lowest index wins at ties.
    """
    rows = unit(features)
    count = len(rows)
    if k < 1 or count == 0:
        return Chosen([], float("nan"))
    members = np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1]
    taken = np.zeros(int(members.max()) + 1, np.int64)  # chosen ones of each group
    free = np.ones(count, bool)
    nearest = np.full(count, np.inf)
    score = -_distances(rows, unit(rows.mean(axis=0)[None])[0])
    chosen: list[int] = []
    while len(chosen) < min(k, count):
        level = taken[members]
        open_now = free & (level == level[free].min())
        best = int(np.argmax(np.where(open_now, np.round(score, _DECIMALS), -np.inf)))
        chosen.append(best)
        free[best] = False
        taken[members[best]] += 1
        nearest = np.minimum(nearest, _distances(rows, rows[best]))
        score = nearest
    return Chosen(chosen, float(nearest.max()))


def covering_radius(features: NDArray[np.floating], indices: Integers) -> float:
    """Largest distance of any row to the nearest of the given ones."""
    rows = unit(features)
    nearest = np.full(len(rows), np.inf)
    for index in indices:
        nearest = np.minimum(nearest, _distances(rows, rows[index]))
    return float(nearest.max())


def outliers(features: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Rows that lie far from all others: k-center would choose them first.

    Those whose mean distance to their 5 nearest exceeds the third quartile by three interquartile ranges; nothing in
    sets of fewer than 20.
    """
    rows = unit(features)
    if len(rows) < _FEWEST_TO_CUT:
        return np.zeros(len(rows), bool)
    spread = np.array([np.sort(_distances(rows, row))[1 : _NEIGHBORS + 1].mean() for row in rows])
    low, high = np.quantile(spread, [0.25, 0.75])
    return np.asarray(spread > high + 3 * (high - low))


def _distances(rows: Floats, point: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(2 - 2 * (rows @ point), 0)), np.float64)
