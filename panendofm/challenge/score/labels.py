"""Metrics of a classification submission: all profiles, per class, confidence, speed, each with intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import load_mappings
from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.profile import LabelProfile, Metrics, profiles_of
from panendofm.challenge.score.results import (
    ConfidenceScores,
    HouseScores,
    LabelClass,
    LabelProfileScores,
    LabelScores,
    LevelScores,
    MacroMean,
    SubsetScores,
)
from panendofm.challenge.score.subgroups import CLASS, Parted, image_traits, score_parts
from panendofm.challenge.score.subsets import Case
from panendofm.scoring.classification import averages
from panendofm.scoring.classification.confusion import weighted_confusions
from panendofm.scoring.classification.metrics import expected_calibration_error
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.classification.risk_coverage import area_under_risk, risk_at_coverage
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.estimates import Estimate, defined, estimate, value_and_replicate_weights
from panendofm.scoring.statistics.speed import Speed, fps_replicates, speed_of

COVERAGES = (0.5, 0.8, 0.9, 1.0)
_MACRO_MEANS = ("recall", "precision", "specificity", "f1")


def confusion_of(truth: Truth, answers: Answers, weights: Floats) -> Floats:
    """Matrices under weights [R, N] as [R, C, C], with one column more for missing answers when there are any."""
    classes = len(truth.classes)
    missing = bool((answers.label == MISSING).any())
    answer = np.where(answers.label == MISSING, classes, answers.label)
    # A square of the larger side, then without the row of truth that nothing has.
    square = weighted_confusions(truth.label, answer, classes + missing, weights)
    return np.asarray(square[:, :classes, :])


def score_labels(truth: Truth, answers: Answers, config: ScoreConfig) -> LabelScores:
    weights = value_and_replicate_weights(truth.groups, config.bootstrap)
    confusions = confusion_of(truth, answers, weights)  # [1 + R, C, C]
    level = config.bootstrap.confidence
    speed, fps = _speed(answers, weights, level)
    return LabelScores(
        n=len(truth),
        missing_counted_as_wrong=int((answers.label == MISSING).sum()),
        classes=list(truth.classes),
        groups=int(truth.groups.max()) + 1,
        group_kind=truth.group_kind,
        confusion=confusions[0].astype(int).tolist(),
        profiles={name: _profile(profile, confusions, level) for name, profile in profiles_of(LabelProfile).items()},
        house=_house(confusions, level),
        per_class=_per_class(truth, confusions[0], level),
        confidence=_confidence(answers, answers.label == truth.label, weights, level),
        speed=speed,
        fps=fps,
        levels=_levels(truth, answers),
        centers=_centers(truth, answers),
        **vars(_subgroups(truth, answers, weights, confusions, config)),
    )


def _profile(profile: LabelProfile, confusions: Floats, level: float) -> LabelProfileScores:
    counts = averages.summed(averages.one_against_rest(confusions[0]))
    over = len(confusions[0]) if profile.counts_are_means else 1
    return LabelProfileScores(
        about=profile.about,
        metrics={name: estimate(values, level) for name, values in profile.metrics(confusions).items()},
        counts={name: float(count) / over for name, count in vars(counts).items()},
    )


def _house(confusions: Floats, level: float) -> HouseScores:
    means = averages.macro_with_test_images(confusions)
    every = averages.all_class_rates(confusions[0])
    present = confusions[0].sum(axis=-1) > 0
    macro = {}
    for name in _MACRO_MEANS:
        mean = estimate(means[name], level)
        macro[name] = MacroMean(mean.value, mean.low, mean.high, int((present & ~np.isnan(every[name])).sum()))
    return HouseScores(
        macro=macro,
        mcc_multiclass=float(averages.square_mcc(confusions[0])),
        mcc_pooled=float(averages.pooled_mcc(confusions[0])),
        mcc_mean_of_classes=defined(means["mcc"][0]),
    )


def _per_class(truth: Truth, confusion: Floats, level: float) -> dict[str, LabelClass]:
    counts = averages.one_against_rest(confusion)
    every = averages.all_class_rates(confusion)
    result = {}
    for c, name in enumerate(truth.classes):
        tp, fp, fn, tn = (int(part[c]) for part in (counts.tp, counts.fp, counts.fn, counts.tn))
        rates = {rate: defined(values[c]) for rate, values in every.items()}
        intervals = (wilson(tp, tp + fn, level), wilson(tp, tp + fp, level))
        result[name] = LabelClass(tp + fn, tp, fp, fn, tn, rates, *intervals)
    return result


def _confidence(answers: Answers, correct: NDArray[np.bool_], weights: Floats, level: float) -> ConfidenceScores:
    given = answers.label != MISSING
    confidence = answers.confidence[given]
    risks = risk_at_coverage(answers.confidence, correct, np.array(COVERAGES), weights)
    return ConfidenceScores(
        expected_calibration_error=defined(expected_calibration_error(confidence, correct[given])),
        mean_confidence=float(confidence.mean()) if given.any() else None,
        brier_of_the_answer=float(((confidence - correct[given]) ** 2).mean()) if given.any() else None,
        risk_at_coverage={f"{share:g}": estimate(risks[:, i], level) for i, share in enumerate(COVERAGES)},
        area_under_risk_coverage=area_under_risk(answers.confidence, correct),
    )


def _speed(answers: Answers, weights: Floats, level: float) -> tuple[Speed | None, Estimate | None]:
    if answers.time_ms is None:
        return None, None
    known = ~np.isnan(answers.time_ms)
    times = answers.time_ms[known]
    drawn = weights[:, known]
    # A replicate may hold missing answers alone, which have no time.
    drawn = drawn[drawn.sum(axis=1) > 0]
    speed = speed_of(times)
    return speed, replace(estimate(fps_replicates(times, drawn), level), value=speed.fps)


def _levels(truth: Truth, answers: Answers) -> LevelScores | None:
    """Only when one of the atlas's mappings knows every class."""
    mappings = load_mappings().values()
    mapping = next((m for m in mappings if set(truth.classes) <= set(m.labels)), None)
    if mapping is None:
        return None
    shares = {}
    for level in ("region", "category"):
        names = [getattr(mapping.labels[name][0], level) for name in truth.classes]
        number = np.unique(names, return_inverse=True)[1]
        same = (answers.label != MISSING) & (number[truth.label] == number[np.maximum(answers.label, 0)])
        shares[level] = float(same.mean())
    return LevelScores(mapping.dataset, shares["region"], shares["category"])


def _centers(truth: Truth, answers: Answers) -> dict[str, SubsetScores]:
    result = {}
    for name in sorted(set(truth.centers or ())):
        inside = np.array([center == name for center in truth.centers or ()])
        result[name or "unnamed"] = score_subset(truth, answers, inside)
    return result


def _subgroups(truth: Truth, answers: Answers, weights: Floats, confusions: Floats, config: ScoreConfig) -> Parted:
    centers = truth.centers or [""] * len(truth)
    stated = [
        [*image_traits(own, center, [size], config.subgroups), (CLASS, truth.classes[label])]
        for own, center, size, label in zip(truth.traits, centers, truth.sizes_mm, truth.label, strict=True)
    ]

    def metrics_where(inside: NDArray[np.bool_]) -> tuple[Metrics, Metrics]:
        present = np.unique(truth.label[inside])
        own = confusion_of(truth, answers, weights * inside)
        return _of_classes(own, present), _of_classes(confusions, present)

    def case(i: int) -> Case:
        answer = "(missing)" if answers.label[i] == MISSING else truth.classes[answers.label[i]]
        caption = f"{truth.classes[truth.label[i]]}, answered {answer} ({answers.confidence[i]:.2f})"
        return Case(truth.files[i], truth.keys[i][1], float(right[i]), caption)

    right = (answers.label == truth.label).astype(np.float64)
    # The surest right answers are best, the surest wrong ones worst.
    order = np.where(right > 0, answers.confidence, -answers.confidence)
    return score_parts(stated, metrics_where, right, case, truth.groups, weights, config, order)


def _of_classes(confusions: Floats, present: NDArray[np.int64]) -> Metrics:
    """Our own averages over some of the classes; answers of other classes are one column more, right for nobody.

    A profile's averages would count a class that the part lacks as 0.
    """
    rows = confusions[:, present]
    inside = rows[:, :, present]
    other = rows.sum(axis=-1) - inside.sum(axis=-1)
    confusion = np.concatenate([inside, other[..., None]], axis=-1)
    means = averages.macro_with_test_images(confusion)
    told_apart = (confusion.sum(axis=-1) > 0).sum(axis=-1) > 1
    return {
        "mcc": np.where(told_apart, averages.square_mcc(confusion), np.nan),
        **{name: means[name] for name in _MACRO_MEANS},
    }


def score_subset(truth: Truth, answers: Answers, inside: NDArray[np.bool_]) -> SubsetScores:
    confusion = confusion_of(truth, answers, inside[None].astype(np.float64))[0]
    return SubsetScores(
        images=int(inside.sum()),
        correct=float((answers.label == truth.label)[inside].mean()),
        mcc=float(averages.square_mcc(confusion)),
    )
