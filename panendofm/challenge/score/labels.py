"""Figures of a classification submission: all profiles, per class, confidence, speed, each with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import load_mappings
from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.score.format_metric import figure, none_for_nan
from panendofm.scoring.classification import profiles
from panendofm.scoring.classification.confusion import weighted_confusions
from panendofm.scoring.classification.metrics import expected_calibration_error
from panendofm.scoring.classification.risk_coverage import area_under_risk, risk_at_coverage
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import group_weights
from panendofm.scoring.statistics.speed import fps_replicates, speed_of

Floats = NDArray[np.float64]
COVERAGES = (0.5, 0.8, 0.9, 1.0)


def confusion_of(truth: Truth, answers: Answers, weights: Floats) -> Floats:
    """Matrices under weights [R, N] as [R, C, C], with one column more for missing answers when there are any."""
    classes = len(truth.classes)
    missing = bool((answers.label == MISSING).any())
    width = classes + missing
    answer = np.where(answers.label == MISSING, classes, answers.label)
    # A square of the larger side, then without the row of truth that nothing has.
    square = weighted_confusions(truth.label, answer, width, weights)
    return np.asarray(square[:, :classes, :])


def score_labels(truth: Truth, answers: Answers, bootstrap: BootstrapConfig) -> dict[str, Any]:
    confusion = confusion_of(truth, answers, np.ones((1, len(truth))))[0]
    weights = group_weights(truth.groups, bootstrap.samples, bootstrap.seed)
    drawn = confusion_of(truth, answers, weights)  # [R, C, C]
    right = answers.label == truth.label
    result: dict[str, Any] = {
        "type": "classification",
        "n": len(truth),
        "missing_counted_as_wrong": int((answers.label == MISSING).sum()),
        "classes": list(truth.classes),
        "groups": {"kind": truth.group_kind, "count": int(truth.groups.max()) + 1},
        "confusion": confusion.astype(int).tolist(),
        "profiles": {
            name: _profile(profile, confusion, drawn, bootstrap.confidence)
            for name, profile in profiles.PROFILES.items()
        },
        "house": _house(confusion, drawn, bootstrap.confidence),
        "per_class": _per_class(truth, confusion, bootstrap.confidence),
        "confidence": _confidence(answers, right, weights, bootstrap.confidence),
        "speed": _speed(answers, weights, bootstrap.confidence),
        "levels": _levels(truth, answers),
    }
    if truth.centres is not None:
        result["centres"] = _centres(truth, answers)
    return result


def _profile(profile: profiles.Profile, confusion: Floats, drawn: Floats, level: float) -> dict[str, Any]:
    values, replicates = profile.figures(confusion), profile.figures(drawn)
    counts = profile.counts(confusion)
    return {
        "about": profile.about,
        "counts": {name: float(getattr(counts, name)) for name in ("tp", "tn", "fp", "fn")},
        "figures": {name: figure(values[name], replicates[name], level) for name in profiles.FIGURES},
    }


def _house(confusion: Floats, drawn: Floats, level: float) -> dict[str, Any]:
    """Our own averages: over classes with test pictures, and over how many; three numbers called MCC, told apart."""
    means, replicates = profiles.macro_with_test_pictures(confusion), profiles.macro_with_test_pictures(drawn)
    every = profiles.all_class_rates(confusion)
    present = confusion.sum(axis=-1) > 0
    names = ("recall", "precision", "specificity", "f1")
    return {
        "macro": {
            name: {
                **figure(means[name], replicates[name], level),
                "classes": int((present & ~np.isnan(every[name])).sum()),
            }
            for name in names
        },
        "mcc_multiclass": none_for_nan(profiles.square_mcc(confusion)),
        "mcc_pooled": none_for_nan(profiles.pooled_mcc(confusion)),
        "mcc_mean_of_classes": none_for_nan(means["mcc"]),
    }


def _per_class(truth: Truth, confusion: Floats, level: float) -> dict[str, Any]:
    counts, every = profiles.one_against_rest(confusion), profiles.all_class_rates(confusion)
    result = {}
    for c, name in enumerate(truth.classes):
        tp, fp, fn = (float(getattr(counts, k)[c]) for k in ("tp", "fp", "fn"))
        result[name] = {
            "pictures": int(tp + fn),
            "evaluable": tp + fn > 0,
            **{k: int(getattr(counts, k)[c]) for k in ("tp", "fp", "fn", "tn")},
            **{k: none_for_nan(v[c]) for k, v in every.items()},
            "recall_interval": wilson(tp, tp + fn, level),
            "precision_interval": wilson(tp, tp + fp, level),
        }
    return result


def _confidence(answers: Answers, right: NDArray[np.bool_], weights: Floats, level: float) -> dict[str, Any]:
    """What the confidences are worth: calibration, and the error when only the surest are answered."""
    given = answers.label != MISSING
    ece = expected_calibration_error(answers.confidence[given], right[given])
    risks = risk_at_coverage(answers.confidence, right, np.array(COVERAGES), weights)
    alone = risk_at_coverage(answers.confidence, right, np.array(COVERAGES))
    return {
        "expected_calibration_error": none_for_nan(ece),
        "mean_confidence": none_for_nan(answers.confidence[given].mean()) if given.any() else None,
        "brier_of_the_answer": none_for_nan(((answers.confidence - right)[given] ** 2).mean()) if given.any() else None,
        "risk_at_coverage": {f"{share:g}": figure(alone[i], risks[:, i], level) for i, share in enumerate(COVERAGES)},
        "area_under_risk_coverage": area_under_risk(answers.confidence, right),
    }


def _speed(answers: Answers, weights: Floats, level: float) -> dict[str, Any] | None:
    if answers.time_ms is None:
        return None
    known = ~np.isnan(answers.time_ms)
    speed = speed_of(answers.time_ms[known])
    drawn = weights[:, known]
    drawn = drawn[drawn.sum(axis=1) > 0]
    return {
        "source": "self-reported",
        "fps": figure(speed.fps, fps_replicates(answers.time_ms[known], drawn), level),
        "mean_ms": speed.mean_ms,
        "median_ms": speed.median_ms,
        "p95_ms": speed.p95_ms,
        "real_time": speed.real_time(),
        "believable": speed.believable,
    }


def _levels(truth: Truth, answers: Answers) -> dict[str, Any] | None:
    """Share of right answers at the level of region and category: some errors are less wrong than others.

    Only when one of the atlas's mappings knows every class.
    """
    for mapping in load_mappings().values():
        if set(truth.classes) <= set(mapping.labels):
            break
    else:
        return None
    result: dict[str, Any] = {"mapping": mapping.dataset}
    for level in ("region", "category"):
        names = [getattr(mapping.labels[name][0], level) for name in truth.classes]
        number = np.unique(names, return_inverse=True)[1]
        same = (answers.label != MISSING) & (number[truth.label] == number[np.maximum(answers.label, 0)])
        result[level] = float(same.mean())
    return result


def _centres(truth: Truth, answers: Answers) -> dict[str, Any]:
    """Centre by centre: a mean over centres hides the one where it fails."""
    assert truth.centres is not None
    result = {}
    for name in sorted(set(truth.centres)):
        inside = np.array([centre == name for centre in truth.centres])
        confusion = confusion_of(truth, answers, inside[None].astype(np.float64))[0]
        result[name or "unnamed"] = {
            "pictures": int(inside.sum()),
            "right": float((answers.label == truth.label)[inside].mean()),
            "mcc": float(profiles.square_mcc(confusion)),
        }
    return result
