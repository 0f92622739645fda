"""One number from C classes: micro, macro or pooled, from confusion matrices. Challenges choose among these.

Matrices are [..., C, C], rows truth, so that one matrix and a thousand bootstrap replicates take the same way. A column
more stands for answers that are missing: they make a false negative of their class and a false positive of none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from panendofm.scoring.classification import rates
from panendofm.scoring.classification.confusion import multiclass_mcc
from panendofm.scoring.classification.rates import Counts, Floats, mean_over_defined

METRICS = ("precision", "recall", "specificity", "accuracy", "f1", "mcc")


def one_against_rest(confusion: Floats) -> Counts:
    """Counts of each class against all others [..., C]."""
    tp = np.diagonal(confusion, axis1=-2, axis2=-1).astype(np.float64)
    fn, fp = confusion.sum(axis=-1) - tp, confusion[..., : tp.shape[-1]].sum(axis=-2) - tp
    return Counts(tp, fp, fn, confusion.sum(axis=(-2, -1))[..., None] - tp - fn - fp)


def summed(counts: Counts) -> Counts:
    """Counts over all classes [...]."""
    return Counts(*(part.sum(axis=-1) for part in (counts.tp, counts.fp, counts.fn, counts.tn)))


def mean_with_zeros(values: Floats) -> Floats:
    """Mean over the last axis, with 0 for what has no value: the rule of the organizers' scripts."""
    return np.asarray(np.where(np.isnan(values), 0.0, values).mean(axis=-1))


def macro(confusion: Floats, average: Callable[[Floats], Floats] = mean_over_defined) -> dict[str, Floats]:
    return {name: average(values) for name, values in all_class_rates(confusion).items()}


def macro_with_test_images(confusion: Floats) -> dict[str, Floats]:
    """The house rule: a class without test images is not evaluable and left out of every mean."""
    present = confusion.sum(axis=-1) > 0
    return {
        name: mean_over_defined(np.where(present, values, np.nan))
        for name, values in all_class_rates(confusion).items()
    }


def all_class_rates(confusion: Floats) -> dict[str, Floats]:
    return rates.all_rates(one_against_rest(confusion))


def micro(confusion: Floats) -> dict[str, Floats]:
    every = rates.all_rates(summed(one_against_rest(confusion)))
    return {name: every[name] for name in METRICS if name != "mcc"}


def square_mcc(confusion: Floats) -> Floats:
    """Multi-class R_K; missing answers are a class of their own that is never true."""
    rows, columns = confusion.shape[-2:]
    padding = [(0, 0)] * (confusion.ndim - 2) + [(0, columns - rows), (0, 0)]
    return multiclass_mcc(np.pad(confusion, padding))


def pooled_mcc(confusion: Floats) -> Floats:
    """The two-class formula on sums over classes: (C·a − 1)/(C − 1) for a share a of right answers. Not R_K."""
    return rates.matthews(summed(one_against_rest(confusion)))
