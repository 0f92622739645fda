"""Figures of merit from class scores, with bootstrap intervals.

The order of classes for one query is by score, then by class number (at small k many classes score 0: the reference
counts them too). A class without queries can't be judged: it is left out of every mean and named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.config import option
from runtime.errors import UserError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Bounds the memory of the resampled confusion matrices.
_SAMPLES_AT_ONCE = 100

METRICS = ("top1", "top5", "balanced_accuracy", "macro_f1", "mcc")


@dataclass
class BootstrapConfig:
    """How the intervals are drawn: whole near-duplicate groups of queries are resampled, not single images."""

    samples: int = option("Bootstrap samples; 0 leaves the intervals out.", 1000)
    confidence: float = option("Share of the samples inside an interval.", 0.95)
    seed: int = option("Seed of the samples.", 0)

    def check(self) -> None:
        if self.samples < 0 or not 0 < self.confidence < 1:
            raise UserError(
                f"bootstrap.samples must not be negative ({self.samples}) and bootstrap.confidence must lie "
                f"between 0 and 1 ({self.confidence})."
            )


def rank_of_truth(scores: Floats, labels: Integers) -> Integers:
    """How many classes stand before the true one for each query [Q]: 0 means the prediction is right."""
    own = scores[np.arange(len(labels)), labels][:, None]  # [Q, 1]
    lower_number = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > own) | ((scores == own) & lower_number)  # [Q, C]
    return np.asarray(np.count_nonzero(before, axis=1), np.int64)


def confusion_matrix(labels: Integers, predicted: Integers, classes: int) -> Floats:
    """[true class, predicted class] counts."""
    counts = np.bincount(labels * classes + predicted, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.float64)


def _weighted_confusions(labels: Integers, predicted: Integers, classes: int, weights: Floats) -> Floats:
    """[samples, C, C] for weights [samples, Q]."""
    cells = labels * classes + predicted
    order = np.argsort(cells, kind="stable")
    used, starts = np.unique(cells[order], return_index=True)
    result = np.zeros((len(weights), classes * classes))
    result[:, used] = np.add.reduceat(weights[:, order], starts, axis=1)
    return result.reshape(-1, classes, classes)


def recalls(confusion: Floats) -> Floats:
    """Recall of each class [..., C]; nan for a class without queries."""
    total, right = confusion.sum(axis=-1), np.diagonal(confusion, axis1=-2, axis2=-1)
    result = np.full(total.shape, np.nan)
    np.divide(right, total, out=result, where=total > 0)
    return result


def summarise(confusion: Floats) -> dict[str, Floats]:
    """The metrics of confusion matrices [..., C, C] that hold at least one query each."""
    true, predicted = confusion.sum(axis=-1), confusion.sum(axis=-2)  # [..., C]
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    total = true.sum(axis=-1)
    f1 = np.where(true > 0, 2 * right / np.maximum(true + predicted, 1e-300), np.nan)
    # For several classes: covariance of truth and prediction over their deviations; 0 when one of them is constant.
    covariance = right.sum(axis=-1) * total - (true * predicted).sum(axis=-1)
    squared = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
    return {
        "top1": right.sum(axis=-1) / total,
        "balanced_accuracy": np.nanmean(recalls(confusion), axis=-1),
        "macro_f1": np.nanmean(f1, axis=-1),
        "mcc": np.where(squared > 0, covariance / np.sqrt(np.maximum(squared, 1e-300)), 0.0),
    }


def bootstrap_weights(groups: Integers, config: BootstrapConfig) -> Floats:
    """[samples, Q]: how often each query is drawn. All queries of a group are drawn together."""
    number, size = np.unique(groups, return_inverse=True)[1], len(np.unique(groups))
    random = np.random.default_rng(config.seed)
    weights = np.empty((config.samples, len(groups)), np.float64)
    for sample in range(config.samples):
        weights[sample] = np.bincount(random.integers(0, size, size), minlength=size)[number]
    return weights


def interval(values: Floats, confidence: float) -> list[float]:
    """The central part of bootstrap values."""
    outside = (1 - confidence) / 2
    return [float(v) for v in np.nanquantile(values, [outside, 1 - outside])]


def figures(
    scores: Floats, labels: Integers, class_names: list[str], weights: Floats, confidence: float = 0.95
) -> dict[str, Any]:
    """All figures of class scores [Q, C] as plain values for JSON: metrics, intervals, recalls, confusion matrix.

    `weights` [samples, Q] are the bootstrap's; without samples there are no intervals.
    """
    classes = scores.shape[1]
    rank = rank_of_truth(scores, labels)
    predicted = scores.argmax(axis=1)  # the first of equals, as `rank_of_truth` has it
    confusion = confusion_matrix(labels, predicted, classes)
    in_top5 = (rank < 5).astype(np.float64)
    result: dict[str, Any] = {name: float(value) for name, value in summarise(confusion).items()}
    result["top5"] = float(in_top5.mean())
    if len(weights):
        drawn: dict[str, list[Floats]] = {name: [] for name in METRICS}
        for start in range(0, len(weights), _SAMPLES_AT_ONCE):
            some = weights[start : start + _SAMPLES_AT_ONCE]
            for name, values in summarise(_weighted_confusions(labels, predicted, classes, some)).items():
                drawn[name].append(values)
            drawn["top5"].append(some @ in_top5 / some.sum(axis=1))
        result["intervals"] = {name: interval(np.concatenate(drawn[name]), confidence) for name in METRICS}
    per_class = recalls(confusion)
    result["recall"] = {
        name: None if np.isnan(value) else float(value) for name, value in zip(class_names, per_class, strict=True)
    }
    result["confusion"] = confusion.astype(int).tolist()
    result["classes_judged"] = int((~np.isnan(per_class)).sum())
    result["rank_of_truth"] = encode_ranks(rank)
    return result


def encode_ranks(rank: Integers) -> str:
    """One digit per query (9 means 9 or more): compact in JSON and enough for top-1 and top-5."""
    return "".join(str(digit) for digit in np.minimum(rank, 9).tolist())


def decode_ranks(text: str) -> Integers:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64) - ord("0")
