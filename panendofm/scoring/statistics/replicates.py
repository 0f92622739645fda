"""Metrics of one contestant under each row of `group_weights` [R, N]: rows that are shared make differences paired."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panendofm.scoring.classification.rates import Floats, mean_over_defined, ratio
from panendofm.scoring.statistics.intervals import group_weights


def mean_replicates(values: Floats, weights: Floats) -> Floats:
    """Weighted means of values [N] over what is no NaN; NaN where a replicate holds none of them."""
    known = ~np.isnan(values)
    return ratio(weights @ np.where(known, values, 0.0), weights @ known.astype(np.float64))


def macro_replicates(values: Floats, classes: Sequence[str], weights: Floats) -> Floats:
    """Mean over classes of each one's weighted mean; a class that a replicate lost is left out of it."""
    member = _members(classes, sorted(set(classes)))  # [N, C]
    return mean_over_defined(ratio(weights @ (member * values[:, None]), weights @ member))


def macro_f1_replicates(gold: Sequence[str], answers: Sequence[str | None], weights: Floats) -> Floats:
    """Mean over the true classes of 2·TP / (own + predicted); no answer (None) counts as a missed one only."""
    names = sorted(set(gold))
    true, said = _members(gold, names), _members(answers, names)  # [N, C]
    own = weights @ true
    f1 = ratio(2 * (weights @ (true * said)), own + weights @ said)
    return mean_over_defined(np.where(own > 0, f1, np.nan))


def reader_shares(readers: int, draws: int, seed: int) -> Floats:
    """What each reader counts [R, readers] when readers are drawn with replacement; rows add up to 1."""
    return group_weights(np.arange(readers), draws, seed) / max(readers, 1)


def _members(labels: Sequence[str | None], names: Sequence[str]) -> Floats:
    return np.array([[label == name for name in names] for label in labels], np.float64).reshape(len(labels), -1)
