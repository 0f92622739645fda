"""Figures of one contestant under each row of `group_weights` [R, N]: rows that are shared make differences paired."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.statistics.intervals import group_weights

Floats = NDArray[np.float64]


def mean_replicates(values: Floats, weights: Floats) -> Floats:
    """Weighted means of values [N]; NaN where a draw holds none of them."""
    return _divide(weights @ values, weights.sum(axis=1))


def macro_replicates(values: Floats, classes: Sequence[str], weights: Floats) -> Floats:
    """Mean over classes of each one's weighted mean; a class that a draw lost is left out of it."""
    member = _members(classes, sorted(set(classes)))  # [N, C]
    return _known_mean(_divide(weights @ (member * values[:, None]), weights @ member))


def macro_f1_replicates(gold: Sequence[str], answers: Sequence[str | None], weights: Floats) -> Floats:
    """Mean over the true classes of 2·TP / (own + predicted); no answer (None) counts as a missed one only."""
    names = sorted(set(gold))
    true, said = _members(gold, names), _members(answers, names)  # [N, C]
    own = weights @ true
    f1 = _divide(2 * (weights @ (true * said)), own + weights @ said)
    return _known_mean(np.where(own > 0, f1, np.nan))


def reader_shares(readers: int, draws: int, seed: int) -> Floats:
    """What each reader counts [R, readers] when readers are drawn with replacement; rows add up to 1."""
    return group_weights(np.arange(readers), draws, seed) / max(readers, 1)


def _members(labels: Sequence[str | None], names: Sequence[str]) -> Floats:
    return np.array([[label == name for name in names] for label in labels], np.float64).reshape(len(labels), -1)


def _divide(above: Floats, below: Floats) -> Floats:
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0), np.float64)


def _known_mean(table: Floats) -> Floats:
    """Mean of each row over what is no NaN [R]."""
    known = ~np.isnan(table)
    return _divide(np.where(known, table, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))
