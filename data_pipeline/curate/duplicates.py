"""Semantic near-duplicates: frames whose features nearly coincide, of which one stays.

They are looked for within the finest clusters. How alike is too alike differs from network to network, so it is
measured on frames whose relation is known: a frame of the same video a moment away shows the same, one of another video
does not, however alike it looks. The threshold is the lowest similarity above which matches of the first kind make up
the wanted share of both. Frames of one video at other times are either, and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.config import option

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Times = NDArray[np.float64]

# Rows of a cluster whose similarities are computed at a time.
_BLOCK = 2048
# Fewer right matches than this say nothing about a precision of 0.99.
_FEWEST = 100


@dataclass
class NearDuplicatesConfig:
    """Frames that show what another one shows."""

    remove: bool = option("Give all near-duplicates but one the weight 0.", True)
    precision: float = option("Wanted share of right matches among those above the threshold.", 0.99, above=0, high=1)
    seconds: float = option("Frames of one video that lie at most so far apart show the same.", 2.0, above=0)
    lowest_similarity: float = option("Frames of less cosine similarity are never duplicates.", 0.9, low=0, high=1)


@dataclass(frozen=True)
class Measured:
    """A threshold and how it was chosen; the threshold is None where none is precise enough."""

    threshold: float | None
    precision: float = 0.0
    right: int = 0  # frames with a match of the same moment above the threshold
    wrong: int = 0  # frames with a match of another video above it


def best_matches(
    features: Floats, clusters: Ints, videos: Ints, seconds: Times, moment_seconds: float
) -> tuple[Floats, Floats]:
    """For each frame its largest similarity to one of the same moment, and to one of another video; -1 for none.

    Only within its cluster. `videos` [N] are numbers, `seconds` [N] times within them, NaN where they are unknown.
    """
    same, other = (np.full(len(features), -1.0, np.float32) for _ in range(2))
    for rows in _members(clusters):
        for begin in range(0, len(rows), _BLOCK):
            some = rows[begin : begin + _BLOCK]
            products = features[some] @ features[rows].T  # [n, cluster]
            of_video = videos[some][:, None] == videos[rows]
            near = of_video & (np.abs(seconds[some][:, None] - seconds[rows]) <= moment_seconds)
            near[np.arange(len(some)), np.arange(begin, begin + len(some))] = False
            same[some] = np.where(near, products, -1.0).max(1)
            other[some] = np.where(of_video, -1.0, products).max(1)
    return same, other


def choose_threshold(same: Floats, other: Floats, config: NearDuplicatesConfig) -> Measured:
    candidates = np.unique(np.concatenate([same, other]))
    candidates = candidates[candidates >= config.lowest_similarity]  # rising
    right = len(same) - np.searchsorted(np.sort(same), candidates)
    wrong = len(other) - np.searchsorted(np.sort(other), candidates)
    precision = right / np.maximum(right + wrong, 1)
    # From a threshold upwards: a lucky spot below imprecise ones does not count.
    fails = np.flatnonzero((precision < config.precision) & (right + wrong > 0))
    first = int(fails[-1]) + 1 if len(fails) else 0
    if first >= len(candidates) or right[first] < _FEWEST:
        return Measured(None)
    return Measured(float(candidates[first]), float(precision[first]), int(right[first]), int(wrong[first]))


def duplicates(features: Floats, clusters: Ints, threshold: float) -> NDArray[np.bool_]:
    """Frames [N] that are as alike as `threshold` to an earlier one of their cluster that stays."""
    gone = np.zeros(len(features), bool)
    for rows in _members(clusters):
        some = features[rows]
        for place in range(1, len(rows)):
            stays = ~gone[rows[:place]]
            gone[rows[place]] = bool((some[:place][stays] @ some[place] >= threshold).any())
    return gone


def _members(clusters: Ints) -> list[Ints]:
    """The rows of each cluster, rising."""
    order = np.argsort(clusters, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1)
