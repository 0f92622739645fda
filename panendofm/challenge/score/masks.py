"""Metrics of a segmentation file: overlaps and distances per image, pooled pixels, correct «nothing»."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FindingPair, FrameSet
from panendofm.challenge.files.mask_files import mask_of
from panendofm.challenge.profile import MaskProfile, Metrics, profiles_of
from panendofm.challenge.score.centers import center_scores
from panendofm.challenge.score.results import MaskClass, MaskScores, ProfileScores, SizeDice
from panendofm.challenge.score.subgroups import CLASS, NOTHING, SHARE, Parted, image_traits, score_parts
from panendofm.challenge.score.subsets import Case
from panendofm.runtime.console import track
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification import rates
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.average_precision import mean_of_classes
from panendofm.scoring.masks import (
    Mask,
    MaskMetrics,
    class_confusion,
    class_ious,
    frame_verdict,
    mask_metrics,
    mean_metrics,
    pooled,
    size_of,
)
from panendofm.scoring.statistics.estimates import defined, estimate, value_and_replicate_weights
from panendofm.scoring.statistics.replicates import mean_replicates

MEANS = (
    *("dice", "iou", "precision", "recall", "f2", "accuracy", "hausdorff", "hausdorff_95"),
    *("hausdorff_over_diagonal", "hausdorff_95_over_diagonal", "mean_surface_distance"),
)
# Longest diameter of a finding as a share of the image's diagonal.
SIZES = {"small": (0.0, 0.1), "medium": (0.1, 0.3), "large": (0.3, 2.0)}


def score_masks(pair: FindingPair, profile: MaskProfile, config: ScoreConfig) -> MaskScores:
    frames = pair.frames
    metrics: dict[str, list[MaskMetrics]] = {name: [] for name in pair.classes}
    longest: dict[str, list[float | None]] = {name: [] for name in pair.classes}
    confusions = []
    rows = list(zip(frames.frames, pair.told, strict=True))
    for frame, told in track(rows, "masks", len(rows), "frames"):
        masks = _masks_of(pair, frame, told)
        for name, (true, own) in masks.items():
            metrics[name].append(mask_metrics(true, own, profile.empties))
            size = size_of(true)
            longest[name].append(size.longest_px / float(np.hypot(*true.shape)) if size else None)
        confusions.append(_confusion(masks))
    weights = value_and_replicate_weights(frames.groups, config.bootstrap)
    level = config.bootstrap.confidence
    profiles = profiles_of(MaskProfile)
    means = {name: mean_metrics(found, MEANS, weights) for name, found in metrics.items()}
    # What each challenge would rank by, all under the chosen rules for empty masks.
    rankings = {name: {n: p.score(of_class) for n, p in profiles.items()} for name, of_class in means.items()}
    overall = {n: mean_of_classes([of_class[n] for of_class in rankings.values()]) for n in profiles}
    dice = np.mean([[m.dice for m in found] for found in metrics.values()], axis=0)
    return MaskScores(
        n=len(frames),
        classes=list(pair.classes),
        groups=int(frames.groups.max()) + 1,
        group_kind=frames.group_kind,
        profiles={n: ProfileScores(p.about, {"score": estimate(overall[n], level)}) for n, p in profiles.items()},
        per_class={
            name: _class(found, means[name], rankings[name], longest[name], weights, level)
            for name, found in metrics.items()
        },
        mean_iou_of_classes=_mean_iou(confusions),
        centers=center_scores("dice", lambda inside: _mean(dice[inside]), frames, config.unseen_center),
        **vars(_subgroups(frames, metrics, longest, profile, weights, config)),
    )


def _subgroups(
    frames: FrameSet,
    metrics: Mapping[str, Sequence[MaskMetrics]],
    longest: Mapping[str, Sequence[float | None]],
    profile: MaskProfile,
    weights: Floats,
    config: ScoreConfig,
) -> Parted:
    """The profile's score, Dice and IoU as means over all classes."""

    def means_where(inside: NDArray[np.bool_]) -> Metrics:
        by_class = [mean_metrics(found, MEANS, weights, inside) for found in metrics.values()]
        score = mean_of_classes([profile.score(means) for means in by_class])
        return {"score": score, **{name: mean_of_classes([m[name] for m in by_class]) for name in ("dice", "iou")}}

    traits = []
    for i, frame in enumerate(frames.frames):
        shares = [size for of_class in longest.values() if (size := of_class[i]) is not None]
        names = [name for name, (low, high) in SIZES.items() if any(low < share <= high for share in shares)]
        seen = sorted(name for name, found in metrics.items() if found[i].has_finding)
        stated = image_traits(frame.traits, frame.center, [f.size_mm for f in frame.findings], config.subgroups)
        traits.append([*stated, *((SHARE, name) for name in names), *((CLASS, name) for name in seen or [NOTHING])])
    everywhere = means_where(np.ones(len(frames), bool))
    dice = np.mean([[m.dice for m in found] for found in metrics.values()], axis=0)

    def metrics_where(inside: NDArray[np.bool_]) -> tuple[Metrics, Metrics]:
        return means_where(inside), everywhere

    def case(i: int) -> Case:
        frame = frames.frames[i]
        return Case(frame.file, frame.frame, float(dice[i]), f"Dice {dice[i]:.2f}")

    return score_parts(traits, metrics_where, dice, case, frames.groups, weights, config)


def _masks_of(pair: FindingPair, frame: Frame, told: Frame) -> dict[str, tuple[Mask, Mask]]:
    """True and predicted mask of each class; a class that nobody marked is empty on that side."""
    size = frame.size or told.size
    found: dict[str, tuple[Mask | None, Mask | None]] = {}
    for name in pair.classes:
        true, size = mask_of(pair.truth, frame, name, size)
        own, size = mask_of(pair.prediction, told, name, size)
        found[name] = (true, own)
    if size is None:
        raise UserError(
            f"{pair.truth.path}, line {frame.line}: neither side has a mask of {frame.file}, so its size is not known; "
            "add width and height to the truth."
        )
    empty = np.zeros((size[1], size[0]), bool)
    return {
        name: (empty if true is None else true, empty if own is None else own) for name, (true, own) in found.items()
    }


def _confusion(pairs: dict[str, tuple[Mask, Mask]]) -> NDArray[np.float64]:
    """Pixels by class, 0 for none; where classes overlap the later one counts."""
    shape = next(iter(pairs.values()))[0].shape
    sides = np.zeros((2, *shape), np.int64)
    for number, masks in enumerate(pairs.values(), 1):
        for side in (0, 1):
            sides[side][masks[side]] = number
    return class_confusion(sides[0], sides[1], len(pairs) + 1)


def _mean_iou(confusions: list[Floats]) -> dict[str, float | None]:
    ious = class_ious(np.sum(confusions, axis=0))
    return {
        "pooled": defined(_mean(ious)),
        "pooled_without_background": defined(_mean(ious[1:])),
        "mean_of_images": defined(float(np.mean([_mean(class_ious(c)) for c in confusions]))),
    }


def _mean(values: Floats) -> float:
    return float(rates.mean_over_defined(values))


def _class(
    found: Sequence[MaskMetrics],
    means: dict[str, Floats],
    rankings: dict[str, Floats],
    longest: Sequence[float | None],
    weights: Floats,
    level: float,
) -> MaskClass:
    with_finding = np.array([m.has_finding for m in found])
    left_empty = np.where(with_finding, np.nan, [not m.reports_finding for m in found])
    verdicts = [frame_verdict(int(m.counts.tp + m.counts.fn), int(m.counts.tp), int(m.counts.fp)) for m in found]
    counts = rates.Counts.of(*(verdicts.count(v) for v in ("tp", "fp", "fn", "tn")))
    positive = mean_metrics(found, MEANS, weights, with_finding)
    return MaskClass(
        mean_over_images={name: estimate(values, level) for name, values in means.items()},
        mean_over_images_with_a_finding={name: estimate(values, level) for name, values in positive.items()},
        pooled_pixels={name: estimate(values, level) for name, values in pooled(found, weights).items()},
        images_without_finding=int((~with_finding).sum()),
        left_empty=int(np.nansum(left_empty)),
        correct_nothing=estimate(mean_replicates(left_empty, weights), level),
        frame_sensitivity=defined(float(rates.recall(counts))),
        frame_specificity=defined(float(rates.specificity(counts))),
        ranking={name: estimate(values, level) for name, values in rankings.items()},
        by_size=_by_size(found, longest),
    )


def _by_size(found: Sequence[MaskMetrics], longest: Sequence[float | None]) -> dict[str, SizeDice]:
    result = {}
    for name, (low, high) in SIZES.items():
        inside = [m.dice for m, size in zip(found, longest, strict=True) if size is not None and low < size <= high]
        result[name] = SizeDice(len(inside), float(np.mean(inside)) if inside else None)
    return result
