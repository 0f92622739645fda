"""All figures of one head on the test side of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.linear_probe.tasks import Task
from panendofm.scoring.classification.calibration import sigmoid
from panendofm.scoring.classification.confusion import confusion_matrix, multiclass_mcc
from panendofm.scoring.classification.metrics import (
    Floats,
    Targets,
    average_precision,
    brier_score,
    class_metrics,
    expected_calibration_error,
    macro,
    roc_auc,
    weighted_roc_auc,
)
from panendofm.scoring.classification.risk_coverage import area_under_risk, risk_at_coverage
from panendofm.scoring.statistics.intervals import group_weights, macro_auc_replicates, percentile_interval

# Shares of the images that are answered, surest first.
COVERAGES = (0.5, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class TestSide:
    """The test rows of a task."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    targets: Targets  # [n, C]
    groups: NDArray[np.int64]  # [n]
    datasets: Sequence[tuple[str, ...]]
    evaluable: NDArray[np.bool_]  # [C]
    overlaps_pretraining: NDArray[np.bool_]  # [n]
    crosses_split: NDArray[np.bool_] | None = None  # [n]; a near twin stands outside the official test part


def evaluate(
    task: Task, side: TestSide, logits: Floats, temperature: float, replicates: int, seed: int
) -> tuple[dict[str, Any], Floats]:
    """Figures for JSON (None: not evaluable), and the bootstrap replicates of the macro-AUC for paired tests."""
    weights = group_weights(side.groups, replicates, seed)
    draws = macro_auc_replicates(side.targets, logits, weights, side.evaluable)
    areas = np.where(side.evaluable, roc_auc(side.targets, logits), np.nan)
    decisions = decide(task, logits)
    figures = class_metrics(side.targets, decisions)
    precision = average_precision(side.targets, logits)
    rates = {name: getattr(figures, name) for name in ("sensitivity", "specificity", "ppv", "npv", "f1", "mcc")}
    per_class_draws = weighted_roc_auc(side.targets, logits, weights)
    per_class = {}
    for level in task.levels:
        for c in range(level.start, level.stop):
            name = f"{level.name}:{task.classes[c]}" if level.name else task.classes[c]
            per_class[name] = {
                "positives": int(side.targets[:, c].sum()),
                "evaluable": bool(side.evaluable[c]),
                "auc": _number(areas[c]),
                **(_interval(per_class_draws[:, c]) if side.evaluable[c] else {"low": None, "high": None}),
                "average_precision": _number(precision[c]) if side.evaluable[c] else None,
                **{key: _number(value[c]) for key, value in rates.items()},
            }
    result = {
        "images": len(side.targets),
        "groups": len(np.unique(side.groups)),
        "auc": {"macro": _number(macro(areas)), **_interval(draws), "classes": int(side.evaluable.sum())},
        "levels": _levels(task, side, logits, areas, weights),
        "average_precision": _number(macro(np.where(side.evaluable, precision, np.nan))),
        **_summary(task, side, logits, decisions, rates),
        "calibration": {
            "temperature": temperature,
            "before": _calibration(task, side.targets, logits),
            "after": _calibration(task, side.targets, logits / temperature),
        },
        "per_class": per_class,
        "per_dataset": _per_dataset(side, logits),
        "without_pretraining_overlap": _without(task, side, logits, side.overlaps_pretraining, replicates, seed),
        "without_crossing_groups": _without(task, side, logits, side.crosses_split, replicates, seed),
        "risk_coverage": _risk_coverage(task, side, logits / temperature, weights),
    }
    return result, draws


def decide(task: Task, logits: Floats) -> Targets:
    """The answer [n, C]: the most likely class in an exclusive task, every class above one half in another."""
    if not task.exclusive:
        return logits > 0
    decisions = np.zeros(logits.shape, bool)
    decisions[np.arange(len(logits)), logits.argmax(1)] = True
    return decisions


def confusion(task: Task, targets: Targets, logits: Floats, start: int, stop: int) -> NDArray[np.int64]:
    """Truth (rows) against the most likely class, for the images that show exactly one class of this level."""
    single = targets[:, start:stop].sum(1) == 1
    truth, answer = targets[single, start:stop].argmax(1), logits[single, start:stop].argmax(1)
    return confusion_matrix(truth, answer, stop - start).astype(np.int64)


def _summary(
    task: Task, side: TestSide, logits: Floats, decisions: Targets, rates: dict[str, Floats]
) -> dict[str, float | None]:
    """One figure each for the whole task: means over the evaluable classes, accuracy over images."""
    means = {name: macro(np.where(side.evaluable, value, np.nan)) for name, value in rates.items()}
    if task.exclusive:
        means["mcc"] = float(
            multiclass_mcc(confusion(task, side.targets, logits, 0, len(task.classes)).astype(np.float64))
        )
        balanced = means["sensitivity"]
    else:
        balanced = (means["sensitivity"] + means["specificity"]) / 2
    accuracy = float((decisions == side.targets).all(1).mean()) if len(decisions) else float("nan")
    return {
        "accuracy": _number(accuracy),
        "balanced_accuracy": _number(balanced),
        **{name: _number(value) for name, value in means.items()},
    }


def _calibration(task: Task, targets: Targets, logits: Floats) -> dict[str, float | None]:
    probabilities = sigmoid(logits)
    if task.exclusive:
        answer = probabilities.argmax(1)
        rows = np.arange(len(answer))
        error = expected_calibration_error(probabilities[rows, answer], targets[rows, answer])
    else:
        error = expected_calibration_error(probabilities.ravel(), targets.ravel())
    return {"ece": _number(error), "brier": _number(brier_score(targets, probabilities))}


def _levels(task: Task, side: TestSide, logits: Floats, areas: Floats, weights: Floats) -> dict[str, Any]:
    if len(task.levels) == 1:
        return {}
    result = {}
    for level in task.levels:
        in_level = np.zeros(len(task.classes), bool)
        in_level[level.start : level.stop] = side.evaluable[level.start : level.stop]
        draws = macro_auc_replicates(side.targets, logits, weights, in_level)
        result[level.name] = {
            "macro": _number(macro(areas[in_level])),
            **_interval(draws),
            "classes": int(in_level.sum()),
        }
    return result


def _per_dataset(side: TestSide, logits: Floats) -> dict[str, Any]:
    """Macro-AUC on the images of each dataset, over the classes that can be told apart inside it."""
    result = {}
    for name in sorted({d for datasets in side.datasets for d in datasets}):
        rows = np.array([name in datasets for datasets in side.datasets])
        areas = np.where(side.evaluable, roc_auc(side.targets[rows], logits[rows]), np.nan)
        classes = int((~np.isnan(areas)).sum())
        result[name] = {"images": int(rows.sum()), "classes": classes, "macro": _number(macro(areas))}
    return result


def _without(
    task: Task, side: TestSide, logits: Floats, left_out: NDArray[np.bool_] | None, replicates: int, seed: int
) -> dict[str, Any] | None:
    """The macro-AUC once more, on the images that can't have been seen in training; None when that are all."""
    if left_out is None or not left_out.any():
        return None
    keep = ~left_out
    areas = np.where(side.evaluable, roc_auc(side.targets[keep], logits[keep]), np.nan)
    known = ~np.isnan(areas)
    draws = macro_auc_replicates(
        side.targets[keep], logits[keep], group_weights(side.groups[keep], replicates, seed), known
    )
    left: dict[str, Any] = {"images": int(keep.sum()), "left_out": int((~keep).sum()), "classes": int(known.sum())}
    if task.exclusive and keep.any():
        found = confusion(task, side.targets[keep], logits[keep], 0, len(task.classes))
        left["mcc"] = _number(float(multiclass_mcc(found.astype(np.float64))))
    return {**left, "macro": _number(macro(areas)), **_interval(draws)}


def _risk_coverage(task: Task, side: TestSide, logits: Floats, weights: Floats) -> dict[str, Any] | None:
    """Share of wrong answers when only the surest are given, for tasks with one answer an image."""
    if not task.exclusive or not len(logits):
        return None
    probabilities = sigmoid(logits)
    answer = probabilities.argmax(1)
    rows = np.arange(len(answer))
    sure, right = probabilities[rows, answer], side.targets[rows, answer]
    shares = np.array(COVERAGES)
    risks, drawn = risk_at_coverage(sure, right, shares), risk_at_coverage(sure, right, shares, weights)
    return {
        "risk": {f"{s:g}": {"value": _number(risks[i]), **_interval(drawn[:, i])} for i, s in enumerate(COVERAGES)},
        "area": area_under_risk(sure, right),
    }


def _interval(draws: Floats) -> dict[str, float | None]:
    interval = percentile_interval(draws)
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}


def _number(value: float | np.floating[Any]) -> float | None:
    return None if np.isnan(value) else float(value)
