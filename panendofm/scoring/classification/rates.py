"""Rates of counts: true and false positives and negatives of one class, or of arrays of classes.

NaN where a denominator is empty. Matthews' correlation is the exception, as in scikit-learn: a constant answer has no
correlation with anything, 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Counts of any common shape."""

    tp: Floats
    fp: Floats
    fn: Floats
    tn: Floats

    @staticmethod
    def of(tp: ArrayLike, fp: ArrayLike, fn: ArrayLike, tn: ArrayLike) -> Counts:
        return Counts(*(np.asarray(x, np.float64) for x in (tp, fp, fn, tn)))

    @property
    def total(self) -> Floats:
        return self.tp + self.fp + self.fn + self.tn


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, NaN where whole is 0."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))


def mean_over_defined(values: Floats, axis: int = -1) -> Floats:
    """Mean over one axis, over what has a value; NaN when nothing has."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(axis=axis), known.sum(axis=axis))


def recall(counts: Counts) -> Floats:
    return ratio(counts.tp, counts.tp + counts.fn)


def precision(counts: Counts) -> Floats:
    return ratio(counts.tp, counts.tp + counts.fp)


def specificity(counts: Counts) -> Floats:
    return ratio(counts.tn, counts.tn + counts.fp)


def negative_predictive_value(counts: Counts) -> Floats:
    return ratio(counts.tn, counts.tn + counts.fn)


def accuracy(counts: Counts) -> Floats:
    return ratio(counts.tp + counts.tn, counts.total)


def f_score(counts: Counts, beta: float = 1.0) -> Floats:
    """(1 + b²)·P·R / (b²·P + R), written in counts so that an empty precision does not matter."""
    weight = beta * beta
    return ratio((1 + weight) * counts.tp, (1 + weight) * counts.tp + weight * counts.fn + counts.fp)


def matthews(counts: Counts) -> Floats:
    tp, fp, fn, tn = counts.tp, counts.fp, counts.fn, counts.tn
    spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return np.asarray(np.divide(tp * tn - fp * fn, spread, out=np.zeros(spread.shape), where=spread > 0))


def all_rates(counts: Counts) -> dict[str, Floats]:
    return {
        "recall": recall(counts),
        "precision": precision(counts),
        "specificity": specificity(counts),
        "npv": negative_predictive_value(counts),
        "accuracy": accuracy(counts),
        "f1": f_score(counts),
        "f2": f_score(counts, 2.0),
        "mcc": matthews(counts),
    }
