"""Weights from clusters: all coarsest clusters have the same share, which their clusters share equally, and so on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from data_pipeline.curate.clustering import Hierarchy
from data_pipeline.curate.config import BalanceConfig
from data_pipeline.curate.mapped import Ints

Weights = NDArray[np.float64]
Bools = NDArray[np.bool_]


def balanced_weights(hierarchy: Hierarchy, config: BalanceConfig, kept: Bools | None = None) -> Weights:
    """How often an epoch sees each frame [N], on the average 1; frames that are not `kept` [N] get 0."""
    kept = np.ones(len(hierarchy.parents[0]), bool) if kept is None else kept
    return _capped(_equal_shares(hierarchy, kept), config.most_uses)


def too_few_left(hierarchy: Hierarchy, config: BalanceConfig, kept: Bools) -> Bools:
    """Frames [N] of clusters of which so few are `kept` [N] that each would be seen more often than it may be."""
    of_frame = hierarchy.parents[0]
    wanting = np.zeros(len(hierarchy.centroids[0]), bool)
    wanting[of_frame[_equal_shares(hierarchy, kept) > config.most_uses]] = True
    return wanting[of_frame]


def _equal_shares(hierarchy: Hierarchy, kept: Bools) -> Weights:
    of_frame = hierarchy.parents[0]
    # Clusters without a frame that is kept take no share.
    alive = [np.bincount(of_frame[kept], minlength=len(hierarchy.centroids[0])) > 0]
    for parents, centroids in zip(hierarchy.parents[1:], hierarchy.centroids[1:], strict=True):
        alive.append(np.bincount(parents[alive[-1]], minlength=len(centroids)) > 0)
    shares = alive[-1] / alive[-1].sum()
    for level in range(len(alive) - 1, 0, -1):
        shares = _divided(shares, hierarchy.parents[level], alive[level - 1])
    return _divided(shares, of_frame, kept) * len(of_frame)


def _divided(shares: Weights, parents: Ints, takes: Bools) -> Weights:
    """Each cluster's share in equal parts to those of its members that take part."""
    members = np.bincount(parents[takes], minlength=len(shares))
    result: Weights = np.where(takes, shares[parents] / np.maximum(members[parents], 1), 0.0)
    return result


def _capped(weights: Weights, most: float) -> Weights:
    """No weight above `most`; the others grow by one factor until the sum is as before, as far as that is possible."""
    total = weights.sum()
    free = weights > 0
    capped = np.zeros_like(free)
    while True:
        over = free & ~capped & (weights > most)
        if not over.any():
            return weights
        capped |= over
        weights = np.where(capped, most, weights)
        rest = weights[~capped].sum()
        if rest > 0:
            weights = np.where(capped, weights, weights * (total - most * capped.sum()) / rest)
