"""Metrics. Targets are zeros and ones [N, C], scores any real numbers; a class without a metric gives NaN.

NaN means «not evaluable» (no positives or no negatives); it never counts as 0 or 0.5 and becomes None in exports.
Scores that are NaN or infinite are refused. All agree with scikit-learn where it has the same metric.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.classification import rates
from panendofm.scoring.classification.rates import Counts

Floats = NDArray[np.float64]
Targets = NDArray[np.bool_]

CALIBRATION_BINS = 15


def checked(targets: NDArray[np.generic], scores: NDArray[np.generic]) -> tuple[Targets, Floats]:
    """Targets and scores as [N, C] of the right types, or a ValueError that says what is wrong."""
    t, s = np.asarray(targets), np.asarray(scores, np.float64)
    t, s = (t[:, None], s[:, None]) if t.ndim == 1 else (t, s)
    if t.shape != s.shape or t.ndim != 2:
        raise ValueError(f"targets {t.shape} and scores {s.shape} must be of one shape, [N] or [N, C]")
    if not np.isin(t, (0, 1)).all():
        raise ValueError("targets must be 0 or 1")
    if not np.isfinite(s).all():
        raise ValueError("scores must be finite, some are NaN or infinite")
    return t.astype(bool), s


def roc_auc(targets: NDArray[np.generic], scores: NDArray[np.generic]) -> Floats:
    """Area under the ROC curve of each class [C]: P(positive above negative), ties count half."""
    t, s = checked(targets, scores)
    areas: Floats = weighted_roc_auc(t, s, np.ones((1, len(t))))[0]
    return areas


def weighted_roc_auc(targets: Targets, scores: Floats, weights: Floats) -> Floats:
    """AUC of each class under several sets of sample weights [R, N], as [R, C]. For bootstrap weights are counts."""
    result = np.full((len(weights), targets.shape[1]), np.nan)
    for c in range(targets.shape[1]):
        order = np.argsort(scores[:, c], kind="stable")
        ranked, positive = scores[order, c], targets[order, c]
        w = weights[:, order]  # [R, N]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else np.zeros(0, np.int64)
        if not len(starts):
            continue
        up = np.add.reduceat(w * positive, starts, axis=1)  # [R, distinct scores]
        down = np.add.reduceat(w * ~positive, starts, axis=1)
        total_up, total_down = up.sum(1), down.sum(1)
        below = np.cumsum(down, axis=1) - down / 2  # negatives below, half of those at the same score
        valid = (total_up > 0) & (total_down > 0)
        area = (up * below).sum(1)
        result[valid, c] = area[valid] / (total_up[valid] * total_down[valid])
    return result


def average_precision(targets: NDArray[np.generic], scores: NDArray[np.generic]) -> Floats:
    """Average precision of each class [C]: precision at each distinct score, weighted by the gain in recall."""
    t, s = checked(targets, scores)
    result = np.full(t.shape[1], np.nan)
    for c in range(t.shape[1]):
        if not t[:, c].any():
            continue
        order = np.argsort(-s[:, c], kind="stable")
        ranked, positive = s[order, c], t[order, c]
        ends = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])
        hits = np.cumsum(positive)[ends]  # positives at or above each distinct score
        gain = np.diff(np.r_[0, hits]) / hits[-1]
        result[c] = float((hits / (ends + 1) * gain).sum())
    return result


def roc_curve(targets: Targets, scores: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates of one class from (0, 0) to (1, 1), a point for each distinct score."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.r_[scores[order][1:] != scores[order][:-1], True])
    hits = np.cumsum(targets[order])[ends]
    misses = ends + 1 - hits
    return np.r_[0.0, misses / max(misses[-1], 1)], np.r_[0.0, hits / max(hits[-1], 1)]


# What medicine calls the rates.
_NAMES = {
    "sensitivity": "recall",
    "specificity": "specificity",
    "ppv": "precision",
    "npv": "npv",
    "f1": "f1",
    "mcc": "mcc",
}


def class_rates(targets: Targets, decisions: Targets) -> dict[str, Floats]:
    """Rates of each class [C] at its decisions; NaN where the denominator is empty."""
    counts = Counts.of(
        tp=(targets & decisions).sum(0),
        fp=(~targets & decisions).sum(0),
        fn=(targets & ~decisions).sum(0),
        tn=(~targets & ~decisions).sum(0),
    )
    found = rates.all_rates(counts)
    return {name: found[rate] for name, rate in _NAMES.items()}


def expected_calibration_error(confidence: Floats, correct: Targets, bins: int = CALIBRATION_BINS) -> float:
    """Mean gap between confidence and share of correct answers over equal bins of [0, 1], weighted by their size."""
    if not len(confidence):
        return float("nan")
    if not np.isfinite(confidence).all() or confidence.min() < 0 or confidence.max() > 1:
        raise ValueError("confidences must lie between 0 and 1")
    index = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    size = np.bincount(index, minlength=bins)
    gap = np.abs(
        np.bincount(index, confidence, minlength=bins) - np.bincount(index, correct.astype(np.float64), minlength=bins)
    )
    return float(gap[size > 0].sum() / len(confidence))


def brier_score(targets: Targets, probabilities: Floats) -> float:
    """Mean squared error of the probabilities over images and classes."""
    return float(np.mean((probabilities - targets) ** 2))


def macro(values: Floats) -> float:
    """Mean over the classes that have a metric; NaN when none has."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
