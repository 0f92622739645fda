"""Tests between two contestants that answered the same things, and corrections for testing often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from panendofm.scoring.statistics.estimates import defined
from panendofm.scoring.statistics.intervals import paired_p_value, percentile_interval

Floats = NDArray[np.float64]

# Up to this many units all sign patterns are counted; 2^20 sums take about a second.
EXACT_UNITS = 20
# Sums of the same numbers in another order differ by rounding: such a pattern is as extreme as the observed one.
_ROUNDING = 1e-9


def mcnemar(only_a_right: int, only_b_right: int) -> float:
    """Exact two-sided p-value for the samples that only one of the two got right."""
    discordant = only_a_right + only_b_right
    if discordant == 0:
        return 1.0
    return float(min(1.0, 2 * binom.cdf(min(only_a_right, only_b_right), discordant, 0.5)))


def sign_flip(differences: Sequence[float] | Floats, draws: int = 100_000, seed: int = 0) -> float:
    """Two-sided p-value that paired differences [units] are symmetric around 0; the statistic is |their sum|.

    All sign patterns up to EXACT_UNITS units; above that `draws` random ones, one added to both counts. Units without
    a difference change no sum and aren't counted.
    """
    values = np.asarray(differences, np.float64)
    values = values[values != 0]
    observed = abs(values.sum()) - _ROUNDING
    if len(values) <= EXACT_UNITS:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return float(np.mean(np.abs(sums) >= observed))
    random = np.random.default_rng(seed)
    hits, block = 0, 10_000
    for start in range(0, draws, block):
        count = min(block, draws - start)
        signs = random.integers(0, 2, (count, len(values)), np.int8) * 2 - 1  # [count, units]
        hits += int(np.sum(np.abs(signs @ values) >= observed))
    return (hits + 1) / (draws + 1)


def group_sums(values: Floats, groups: NDArray[np.int64]) -> Floats:
    """The sum of each group's values, in the order of the group numbers: what is flipped when samples hang together."""
    _, member = np.unique(groups, return_inverse=True)
    return np.asarray(np.bincount(member, weights=values), np.float64)


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Holm's correction for testing several hypotheses; NaN stays NaN and isn't counted."""
    known = sorted((p, name) for name, p in p_values.items() if not np.isnan(p))
    adjusted = {name: float("nan") for name in p_values}
    largest = 0.0
    for position, (p, name) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - position)))
        adjusted[name] = largest
    return adjusted


def benjamini_hochberg(p_values: dict[str, float]) -> dict[str, float]:
    """The false discovery rate at which each hypothesis would be rejected; NaN stays NaN and isn't counted."""
    known = sorted(((p, name) for name, p in p_values.items() if not np.isnan(p)), reverse=True)
    adjusted = {name: float("nan") for name in p_values}
    smallest = 1.0
    for position, (p, name) in enumerate(known):
        smallest = min(smallest, p * len(known) / (len(known) - position))
        adjusted[name] = smallest
    return adjusted


class Measured(NamedTuple):
    """A contestant's metric, and its bootstrap replicates [R] under weights that all contestants share."""

    value: float
    draws: Floats


@dataclass(frozen=True)
class Compared:
    """The first contestant minus the second; p-values are None where no replicate tells."""

    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_corrected: float | None  # over all pairs that were compared together, by Holm


def compare(pairs: Sequence[tuple[Measured, Measured]], confidence: float) -> list[Compared]:
    p_values = {str(number): paired_p_value(a.draws, b.draws) for number, (a, b) in enumerate(pairs)}
    corrected = holm(p_values)
    found = []
    for (a, b), name in zip(pairs, p_values, strict=True):
        low, high = percentile_interval(a.draws - b.draws, confidence) or (None, None)
        found.append(Compared(a.value - b.value, low, high, defined(p_values[name]), defined(corrected[name])))
    return found
