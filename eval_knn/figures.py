"""The figures of class scores as they stand in an evaluation document."""

from __future__ import annotations

from typing import Any

import numpy as np

from scoring.confusion import (
    Floats,
    Integers,
    confusion_matrix,
    rank_of_truth,
    recalls,
    summarise,
    weighted_confusions,
)
from scoring.intervals import percentile_interval

# Bounds the memory of the resampled confusion matrices.
_SAMPLES_AT_ONCE = 100

METRICS = ("top1", "top5", "balanced_accuracy", "macro_f1", "mcc")


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
            for name, values in summarise(weighted_confusions(labels, predicted, classes, some)).items():
                drawn[name].append(values)
            drawn["top5"].append(some @ in_top5 / some.sum(axis=1))
        result["intervals"] = {name: percentile_interval(np.concatenate(drawn[name]), confidence) for name in METRICS}
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
