"""The metrics of class scores as they stand in an evaluation document."""

from __future__ import annotations

import numpy as np

from panendofm.records.evaluation import METRICS, MetricsAtK, encode_ranks
from panendofm.scoring.classification.confusion import (
    Floats,
    Integers,
    confusion_matrix,
    rank_of_truth,
    recalls,
    summarize,
    weighted_confusions,
)
from panendofm.scoring.statistics.intervals import percentile_interval

# Bounds the memory of the resampled confusion matrices.
_SAMPLES_AT_ONCE = 100


def metrics_at_k(
    scores: Floats,
    labels: Integers,
    class_names: list[str],
    weights: Floats,
    confidence: float = 0.95,
    neighbors: int = 0,
) -> MetricsAtK:
    """All metrics of class scores [Q, C]: metrics, intervals, recalls, confusion matrix.

    `weights` [replicates, Q] are the bootstrap's; without replicates there are no intervals. `neighbors` is how many
    voted.
    """
    classes = scores.shape[1]
    rank = rank_of_truth(scores, labels)
    predicted = scores.argmax(axis=1)  # the first of equals, as `rank_of_truth` has it
    confusion = confusion_matrix(labels, predicted, classes)
    in_top5 = (rank < 5).astype(np.float64)
    per_class = recalls(confusion)
    return MetricsAtK(
        **{name: float(value) for name, value in summarize(confusion).items()},
        top5=float(in_top5.mean()),
        recall={
            name: None if np.isnan(value) else float(value) for name, value in zip(class_names, per_class, strict=True)
        },
        confusion=confusion.astype(int).tolist(),
        classes_judged=int((~np.isnan(per_class)).sum()),
        rank_of_truth=encode_ranks(rank),
        neighbors=neighbors,
        intervals=_intervals(labels, predicted, in_top5, classes, weights, confidence) if len(weights) else None,
    )


def _intervals(
    labels: Integers, predicted: Integers, in_top5: Floats, classes: int, weights: Floats, confidence: float
) -> dict[str, tuple[float, float] | None]:
    drawn: dict[str, list[Floats]] = {name: [] for name in METRICS}
    for start in range(0, len(weights), _SAMPLES_AT_ONCE):
        some = weights[start : start + _SAMPLES_AT_ONCE]
        for name, values in summarize(weighted_confusions(labels, predicted, classes, some)).items():
            drawn[name].append(values)
        drawn["top5"].append(some @ in_top5 / some.sum(axis=1))
    return {name: percentile_interval(np.concatenate(drawn[name]), confidence) for name in METRICS}
