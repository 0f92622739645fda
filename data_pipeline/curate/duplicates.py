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

from data_pipeline.curate.config import NearDuplicatesConfig
from data_pipeline.curate.mapped import Features, Floats, Ints

Times = NDArray[np.float64]

# Frames of a cluster that are compared with so many others of it at a time.
_BLOCK, _OTHERS = 1024, 4096
# Fewer right matches than this say nothing about a precision of 0.99.
_FEWEST = 100


@dataclass(frozen=True)
class Measured:
    """A threshold and how it was chosen; the threshold is None where none is precise enough."""

    threshold: float | None
    precision: float = 0.0
    right: int = 0  # frames with a match of the same moment above the threshold
    wrong: int = 0  # frames with a match of another video above it


def best_matches(
    features: Features, clusters: Ints, videos: Ints, seconds: Times, moment_seconds: float
) -> tuple[Floats, Floats]:
    """For each frame its largest similarity to one of the same moment, and to one of another video; -1 for none.

    Only within its cluster. `videos` [N] are numbers, `seconds` [N] times within them, NaN where they are unknown.
    """
    same, other = (np.full(len(features), -1.0, np.float32) for _ in range(2))
    for rows in _members(clusters):
        for begin in range(0, len(rows), _OTHERS):
            others = rows[begin : begin + _OTHERS]
            of_others = features.take(others)
            for first in range(0, len(rows), _BLOCK):
                some = rows[first : first + _BLOCK]
                products = features.take(some) @ of_others.T  # [n, others]
                of_video = videos[some][:, None] == videos[others]
                near = of_video & (np.abs(seconds[some][:, None] - seconds[others]) <= moment_seconds)
                near &= some[:, None] != others  # not itself
                same[some] = np.maximum(same[some], np.where(near, products, -1.0).max(1))
                other[some] = np.maximum(other[some], np.where(of_video, -1.0, products).max(1))
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


def duplicates(features: Features, clusters: Ints, threshold: float) -> NDArray[np.bool_]:
    """Frames [N] that are as alike as `threshold` to an earlier one of their cluster that stays."""
    gone = np.zeros(len(features), bool)
    for rows in _members(clusters):
        kept, count = np.empty((min(len(rows), _BLOCK), features.width), np.float32), 0  # those that stay, so far
        for begin in range(0, len(rows), _BLOCK):
            for row, one in zip(rows[begin:], features.take(rows[begin : begin + _BLOCK]), strict=False):
                gone[row] = bool((kept[:count] @ one >= threshold).any())
                if not gone[row]:
                    if count == len(kept):
                        kept = np.concatenate([kept, np.empty_like(kept)])
                    kept[count] = one
                    count += 1
    return gone


def _members(clusters: Ints) -> list[Ints]:
    """The rows of each cluster, rising."""
    order = np.argsort(clusters, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(clusters[order])) + 1)
