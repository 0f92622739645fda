"""All metrics of one head on the test side of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import POOR, Task
from panendofm.linear_probe.heads.probe import Trained
from panendofm.linear_probe.results.document import (
    Calibration,
    CalibrationError,
    ChosenHead,
    ClassMetrics,
    MacroAuc,
    RiskCoverage,
    SubsetAuc,
    TaskMetrics,
    TriedHead,
)
from panendofm.linear_probe.results.errors import confused_pairs, tree_errors
from panendofm.linear_probe.results.subgroups import subgroup_aucs
from panendofm.scoring.classification.calibration import sigmoid
from panendofm.scoring.classification.confusion import confusion_matrix, multiclass_mcc
from panendofm.scoring.classification.metrics import (
    Floats,
    Targets,
    average_precision,
    brier_score,
    class_rates,
    expected_calibration_error,
    macro,
    roc_auc,
    weighted_roc_auc,
)
from panendofm.scoring.classification.risk_coverage import area_under_risk, risk_at_coverage
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate, defined, estimate, value_and_replicate_weights
from panendofm.scoring.statistics.intervals import macro_auc_replicates

# Shares of the images that are answered, surest first.
COVERAGES = (0.5, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class TestSide:
    """The test rows of a task."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    targets: Targets  # [n, C]
    groups: NDArray[np.int64]  # [n]
    traits: Sequence[tuple[tuple[str, str], ...]]  # [n]; subgroups of each image
    ids: Sequence[str]  # [n]; checksums
    evaluable: NDArray[np.bool_]  # [C]
    overlaps_pretraining: NDArray[np.bool_]  # [n]
    crosses_split: NDArray[np.bool_] | None = None  # [n]; a near-duplicate stands outside the official test part


def evaluate(
    task: Task, side: TestSide, logits: Floats, trained: Trained, bootstrap: BootstrapConfig
) -> tuple[TaskMetrics, Floats]:
    """All metrics, and the bootstrap replicates of the macro-AUC for paired tests."""
    weights = value_and_replicate_weights(side.groups, bootstrap)
    macro_aucs = macro_auc_replicates(side.targets, logits, weights, side.evaluable)
    class_aucs = weighted_roc_auc(side.targets, logits, weights)
    decisions = decide(task, logits)
    rates = class_rates(side.targets, decisions)
    precision = average_precision(side.targets, logits)
    aucs = [
        estimate(area, bootstrap.confidence) if evaluable else Estimate(None)
        for area, evaluable in zip(class_aucs.T, side.evaluable, strict=True)
    ]
    summary = _summary(task, side, logits, decisions, rates)
    head = trained.head
    metrics = TaskMetrics(
        images=len(side.targets),
        groups=len(np.unique(side.groups)),
        auc=_macro_auc(macro_aucs, int(side.evaluable.sum()), bootstrap.confidence),
        levels=_levels(task, side, logits, weights, bootstrap.confidence),
        average_precision=defined(macro(np.where(side.evaluable, precision, np.nan))),
        accuracy=summary["accuracy"],
        balanced_accuracy=summary["balanced_accuracy"],
        sensitivity=summary["sensitivity"],
        specificity=summary["specificity"],
        ppv=summary["ppv"],
        npv=summary["npv"],
        f1=summary["f1"],
        mcc=summary["mcc"],
        calibration=Calibration(
            head.temperature,
            before=_calibration(task, side.targets, logits),
            after=_calibration(task, side.targets, logits / head.temperature),
        ),
        per_class=_per_class(task, side, aucs, precision, rates),
        subgroups=subgroup_aucs(
            side.targets, logits, side.evaluable, side.groups, side.traits, weights, class_aucs, bootstrap.confidence
        ),
        confused=confused_pairs(task, side.targets, logits, side.ids, weights, bootstrap.confidence),
        chosen=ChosenHead(head.description, head.validation_auc),
        tried=[TriedHead(h.description, h.validation_auc, h.validation_loss) for h in trained.tried],
        without_pretraining_overlap=_without(task, side, logits, side.overlaps_pretraining, bootstrap),
        without_crossing_groups=_without(task, side, logits, side.crosses_split, bootstrap),
        without_poor_images=_without(task, side, logits, np.array([POOR in own for own in side.traits]), bootstrap),
        tree_errors=tree_errors(task, side.targets, logits, weights, bootstrap.confidence),
        risk_coverage=_risk_coverage(task, side, logits / head.temperature, weights, bootstrap.confidence),
    )
    return metrics, macro_aucs[1:]


def decide(task: Task, logits: Floats) -> Targets:
    """The answer [n, C]: the most likely class in an exclusive task, every class above one half in another."""
    if not task.exclusive:
        return logits > 0
    decisions = np.zeros(logits.shape, bool)
    decisions[np.arange(len(logits)), logits.argmax(1)] = True
    return decisions


def confusion(targets: Targets, logits: Floats, start: int, stop: int) -> NDArray[np.int64]:
    """Truth (rows) against the most likely class, for the images that show exactly one class of this level."""
    single = targets[:, start:stop].sum(1) == 1
    truth = targets[single, start:stop].argmax(1)
    answer = logits[single, start:stop].argmax(1)
    return confusion_matrix(truth, answer, stop - start).astype(np.int64)


def _macro_auc(values: Floats, classes: int, confidence: float) -> MacroAuc:
    found = estimate(values, confidence)
    return MacroAuc(found.value, found.low, found.high, classes)


def _per_class(
    task: Task, side: TestSide, aucs: list[Estimate], precision: Floats, rates: dict[str, Floats]
) -> dict[str, ClassMetrics]:
    result = {}
    for c, auc in enumerate(aucs):
        evaluable = bool(side.evaluable[c])
        result[task.class_name(c)] = ClassMetrics(
            positives=int(side.targets[:, c].sum()),
            evaluable=evaluable,
            auc=auc.value,
            low=auc.low,
            high=auc.high,
            average_precision=defined(precision[c]) if evaluable else None,
            **{name: defined(value[c]) for name, value in rates.items()},
        )
    return result


def _summary(
    task: Task, side: TestSide, logits: Floats, decisions: Targets, rates: dict[str, Floats]
) -> dict[str, float | None]:
    """One metric each for the whole task: means over the evaluable classes, accuracy over images."""
    means = {name: macro(np.where(side.evaluable, value, np.nan)) for name, value in rates.items()}
    if task.exclusive:
        means["mcc"] = _mcc(task, side.targets, logits)
        balanced = means["sensitivity"]
    else:
        balanced = (means["sensitivity"] + means["specificity"]) / 2
    accuracy = float((decisions == side.targets).all(1).mean()) if len(decisions) else float("nan")
    values = {"accuracy": accuracy, "balanced_accuracy": balanced, **means}
    return {name: defined(value) for name, value in values.items()}


def _mcc(task: Task, targets: Targets, logits: Floats) -> float:
    return float(multiclass_mcc(confusion(targets, logits, 0, len(task.classes)).astype(np.float64)))


def _calibration(task: Task, targets: Targets, logits: Floats) -> CalibrationError:
    probabilities = sigmoid(logits)
    if task.exclusive:
        answer = probabilities.argmax(1)
        rows = np.arange(len(answer))
        error = expected_calibration_error(probabilities[rows, answer], targets[rows, answer])
    else:
        error = expected_calibration_error(probabilities.ravel(), targets.ravel())
    return CalibrationError(defined(error), defined(brier_score(targets, probabilities)))


def _levels(task: Task, side: TestSide, logits: Floats, weights: Floats, confidence: float) -> dict[str, MacroAuc]:
    if len(task.levels) == 1:
        return {}
    result = {}
    for level in task.levels:
        in_level = np.zeros(len(task.classes), bool)
        in_level[level.start : level.stop] = side.evaluable[level.start : level.stop]
        values = macro_auc_replicates(side.targets, logits, weights, in_level)
        result[level.name] = _macro_auc(values, int(in_level.sum()), confidence)
    return result


def _without(
    task: Task, side: TestSide, logits: Floats, left_out: NDArray[np.bool_] | None, bootstrap: BootstrapConfig
) -> SubsetAuc | None:
    """The macro-AUC once more, without some images; None when none is left out."""
    if left_out is None or not left_out.any():
        return None
    keep = ~left_out
    count = int(keep.sum())
    if not count:
        return SubsetAuc(0, len(keep), 0, None, None, None)
    targets = side.targets[keep]
    known = side.evaluable & ~np.isnan(roc_auc(targets, logits[keep]))
    weights = value_and_replicate_weights(side.groups[keep], bootstrap)
    auc = estimate(macro_auc_replicates(targets, logits[keep], weights, known), bootstrap.confidence)
    mcc = defined(_mcc(task, targets, logits[keep])) if task.exclusive else None
    return SubsetAuc(count, len(keep) - count, int(known.sum()), auc.value, auc.low, auc.high, mcc)


def _risk_coverage(
    task: Task, side: TestSide, logits: Floats, weights: Floats, confidence: float
) -> RiskCoverage | None:
    """Share of wrong answers when only the surest are given, for tasks with one answer an image."""
    if not task.exclusive or not len(logits):
        return None
    probabilities = sigmoid(logits)
    answer = probabilities.argmax(1)
    rows = np.arange(len(answer))
    sure = probabilities[rows, answer]
    right = side.targets[rows, answer]
    risks = risk_at_coverage(sure, right, np.array(COVERAGES), weights)
    by_share = {f"{share:g}": estimate(risk, confidence) for share, risk in zip(COVERAGES, risks.T, strict=True)}
    return RiskCoverage(by_share, area_under_risk(sure, right))
