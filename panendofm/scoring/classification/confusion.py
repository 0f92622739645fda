"""Metrics of one answer a sample, from confusion matrices: one, or many that a bootstrap has drawn.

The order of classes for one sample is by score, then by class number (with few neighbors many classes score 0: the
reference counts them too). A class without samples can't be judged: it is left out of every mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def rank_of_truth(scores: Floats, labels: Integers) -> Integers:
    """How many classes stand before the true one for each sample [N]: 0 means the prediction is right."""
    own = scores[np.arange(len(labels)), labels][:, None]  # [N, 1]
    lower_number = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > own) | ((scores == own) & lower_number)  # [N, C]
    return np.asarray(np.count_nonzero(before, axis=1), np.int64)


def confusion_matrix(labels: Integers, predicted: Integers, classes: int) -> Floats:
    """[true class, predicted class] counts."""
    counts = np.bincount(labels * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.float64)


def weighted_confusions(labels: Integers, predicted: Integers, classes: int, weights: Floats) -> Floats:
    """[samples, C, C] for weights [samples, N]."""
    cells = labels * classes + predicted
    order = np.argsort(cells, kind="stable")
    used, starts = np.unique(cells[order], return_index=True)
    result = np.zeros((len(weights), classes * classes))
    result[:, used] = np.add.reduceat(weights[:, order], starts, axis=1)
    return result.reshape(-1, classes, classes)


def recalls(confusion: Floats) -> Floats:
    """Recall of each class [..., C]; nan for a class without samples."""
    total, right = confusion.sum(axis=-1), np.diagonal(confusion, axis1=-2, axis2=-1)
    result = np.full(total.shape, np.nan)
    np.divide(right, total, out=result, where=total > 0)
    return result


def multiclass_mcc(confusion: Floats) -> Floats:
    """Matthews' correlation of confusion matrices [..., C, C], Gorodkin's form; 0 where truth or answer is constant."""
    true, predicted = confusion.sum(axis=-1), confusion.sum(axis=-2)  # [..., C]
    total, right = true.sum(axis=-1), np.diagonal(confusion, axis1=-2, axis2=-1)
    covariance = right.sum(axis=-1) * total - (true * predicted).sum(axis=-1)
    squared = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
    return np.asarray(np.where(squared > 0, covariance / np.sqrt(np.maximum(squared, 1e-300)), 0.0))


def summarize(confusion: Floats) -> dict[str, Floats]:
    """The metrics of confusion matrices [..., C, C] that hold at least one sample each."""
    true, predicted = confusion.sum(axis=-1), confusion.sum(axis=-2)  # [..., C]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    f1 = np.where(true > 0, 2 * right / np.maximum(true + predicted, 1e-300), np.nan)
    return {
        "top1": right.sum(axis=-1) / true.sum(axis=-1),
        "balanced_accuracy": np.nanmean(recalls(confusion), axis=-1),
        "macro_f1": np.nanmean(f1, axis=-1),
        "mcc": multiclass_mcc(confusion),
    }
