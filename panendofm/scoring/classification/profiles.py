"""One number from C classes, as each challenge defines it: micro, macro or pooled, from confusion matrices.

Matrices are [..., C, C], rows truth, so that one matrix and a thousand bootstrap draws take the same way. A column more
stands for answers that are missing: they make a false negative of their class and a false positive of none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from panendofm.scoring.classification import rates
from panendofm.scoring.classification.confusion import multiclass_mcc
from panendofm.scoring.classification.rates import Counts, Floats

FIGURES = ("precision", "recall", "specificity", "accuracy", "f1", "mcc")


def one_against_rest(confusion: Floats) -> Counts:
    """Counts of each class against all others [..., C]."""
    tp = np.diagonal(confusion, axis1=-2, axis2=-1).astype(np.float64)
    fn, fp = confusion.sum(axis=-1) - tp, confusion[..., : tp.shape[-1]].sum(axis=-2) - tp
    return Counts(tp, fp, fn, confusion.sum(axis=(-2, -1))[..., None] - tp - fn - fp)


def summed(counts: Counts) -> Counts:
    """Counts over all classes [...]."""
    return Counts(*(part.sum(axis=-1) for part in (counts.tp, counts.fp, counts.fn, counts.tn)))


def mean_over_defined(values: Floats) -> Floats:
    """Mean over the last axis, over what has a value; NaN when nothing has."""
    known = ~np.isnan(values)
    return rates.ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1))


def mean_with_zeros(values: Floats) -> Floats:
    """Mean over the last axis, with 0 for what has no value: the rule of the organisers' scripts."""
    return np.asarray(np.where(np.isnan(values), 0.0, values).mean(axis=-1))


def macro(confusion: Floats, average: Callable[[Floats], Floats] = mean_over_defined) -> dict[str, Floats]:
    return {name: average(values) for name, values in all_class_rates(confusion).items()}


def macro_with_test_pictures(confusion: Floats) -> dict[str, Floats]:
    """The house rule: a class without test pictures is not evaluable and left out of every mean."""
    present = confusion.sum(axis=-1) > 0
    return {
        name: mean_over_defined(np.where(present, values, np.nan))
        for name, values in all_class_rates(confusion).items()
    }


def all_class_rates(confusion: Floats) -> dict[str, Floats]:
    return rates.all_rates(one_against_rest(confusion))


def _micro(confusion: Floats) -> dict[str, Floats]:
    sums = summed(one_against_rest(confusion))
    every = rates.all_rates(sums)
    return {name: every[name] for name in ("recall", "precision", "f1", "specificity", "accuracy")}


def square_mcc(confusion: Floats) -> Floats:
    """Multi-class R_K; missing answers are a class of their own that is never true."""
    rows, columns = confusion.shape[-2:]
    padding = [(0, 0)] * (confusion.ndim - 2) + [(0, columns - rows), (0, 0)]
    return multiclass_mcc(np.pad(confusion, padding))


def pooled_mcc(confusion: Floats) -> Floats:
    """The two-class formula on sums over classes: (C·a − 1)/(C − 1) for a share a of right answers. Not R_K."""
    return rates.matthews(summed(one_against_rest(confusion)))


def _medico2017(confusion: Floats) -> dict[str, Floats]:
    return {**_micro(confusion), "mcc": pooled_mcc(confusion)}


def _medico2018(confusion: Floats) -> dict[str, Floats]:
    means, sums = macro(confusion, mean_with_zeros), _micro(confusion)
    return {
        **{name: means[name] for name in ("recall", "precision", "f1", "specificity")},
        "accuracy": sums["accuracy"],
        "mcc": square_mcc(confusion),
    }


def _biomedia2019(confusion: Floats) -> dict[str, Floats]:
    return {**_micro(confusion), "mcc": square_mcc(confusion)}


@dataclass(frozen=True)
class Profile:
    """How a challenge makes one row of a confusion matrix."""

    name: str
    about: str
    counts_are_means: bool  # printed counts: means over classes, else sums
    figures: Callable[[Floats], dict[str, Floats]]

    def counts(self, confusion: Floats) -> Counts:
        counts = summed(one_against_rest(confusion))
        if not self.counts_are_means:
            return counts
        classes = confusion.shape[-2]
        return Counts(*(part / classes for part in (counts.tp, counts.fp, counts.fn, counts.tn)))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("medico2017", "micro averages, MCC pooled over classes", False, _medico2017),
        Profile("medico2018", "macro averages, undefined as 0, multi-class MCC", True, _medico2018),
        Profile("biomedia2019", "micro averages, multi-class MCC", False, _biomedia2019),
        Profile("endotect", "macro averages, undefined as 0, multi-class MCC", False, _medico2018),
    )
}
