"""Average precision of boxes in the definitions that challenges use, with bootstrap replicates over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from panendofm.scoring.classification.rates import mean_over_defined, ratio
from panendofm.scoring.detection.boxes import Boxes, Floats, Matches, match_free, match_highest, overlaps

Curve = Literal["101 points", "all points"]
AREAS = {"small": (-1.0, 100.0**2), "medium": (100.0**2, 200.0**2), "large": (200.0**2, float("inf"))}
_RECALLS = np.linspace(0.0, 1.0, 101)
# Replicates that are computed at once; bounds the memory at so many rows of one class's detections.
_BLOCK = 50


@dataclass(frozen=True)
class BoxRules:
    """When a detection finds a true box, and how its average precision is read from the curve."""

    thresholds: tuple[float, ...]
    curve: Curve
    free_boxes: bool  # a detection looks for the best free true box; else for the best one, taken or not
    limit: int | None  # most detections of a class in an image
    extra_px: float = 0.0


def iou_steps(first: float, last: float) -> tuple[float, ...]:
    """first, first + 0.05 … last."""
    return tuple(round(first + 0.05 * i, 2) for i in range(round((last - first) / 0.05) + 1))


COCO = BoxRules(iou_steps(0.5, 0.95), "101 points", free_boxes=True, limit=100)


def match_class(
    truth: Boxes, detections: Boxes, rules: BoxRules, areas: tuple[float, float] = (-1.0, float("inf"))
) -> dict[float, Matches]:
    """The matches of one class at each threshold."""
    overlap = overlaps(truth, detections, rules.limit, rules.extra_px)
    if rules.free_boxes:
        return {t: match_free(overlap, t, areas) for t in rules.thresholds}
    return {t: match_highest(overlap, t) for t in rules.thresholds}


def average_precision(matches: Matches, curve: Curve) -> float:
    """NaN without true boxes."""
    images = int(max(matches.image.max(initial=-1), matches.truth_image.max(initial=-1))) + 1
    return float(average_precision_replicates(matches, curve, np.ones((1, images)))[0])


def average_precision_replicates(matches: Matches, curve: Curve, weights: Floats) -> Floats:
    """AP under each row of image weights [R, P]; NaN where a replicate has no true box.

    Precision can only be highest at a true positive, so the curve is kept at these alone: false positives before each
    are added up.
    """
    parts = [_block(matches, curve, weights[start : start + _BLOCK]) for start in range(0, len(weights), _BLOCK)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _block(matches: Matches, curve: Curve, weights: Floats) -> Floats:
    total = weights[:, matches.truth_image].sum(axis=1)  # [R] true boxes
    result = np.where(total > 0, 0.0, np.nan)
    counted = ~matches.ignored
    right = matches.true_positive[counted]
    hits = np.flatnonzero(right)
    if not len(hits):
        return np.asarray(result)
    # What comes after the last true positive changes nothing.
    drawn = weights[:, matches.image[counted][: hits[-1] + 1]]  # [R, D] by falling confidence
    true = np.cumsum(drawn[:, hits], axis=1)  # [R, H]
    # All that was reported up to and with each true positive.
    reported = np.cumsum(np.add.reduceat(drawn, np.r_[0, hits[:-1] + 1], axis=1), axis=1)
    precision = np.divide(true, reported, out=np.zeros_like(true), where=reported > 0)
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = np.divide(true, total[:, None], out=np.zeros_like(true), where=total[:, None] > 0)
    if curve == "all points":
        area = (np.diff(recall, axis=1, prepend=0.0) * envelope).sum(axis=1)
        return np.asarray(np.where(total > 0, area, np.nan))
    padded = np.concatenate([envelope, np.zeros((len(envelope), 1))], axis=1)
    for i in np.flatnonzero(total > 0):
        result[i] = padded[i, np.searchsorted(recall[i], _RECALLS, side="left")].mean()
    return np.asarray(result)


def mean_of_classes(values: Sequence[Floats]) -> Floats:
    """Mean over the classes that have a metric, [K][R] → [R]."""
    return mean_over_defined(np.array(values, np.float64), axis=0)


def mean_iou_of_all(matches: Matches, weights: Floats) -> Floats:
    """Mean over all detections, false ones as 0, under image weights [R, P]: EndoCV2020's IoU.

    It falls with every weak box that is submitted.
    """
    images = weights.shape[1]
    total = np.bincount(matches.image, minlength=images).astype(np.float64)
    sums = np.bincount(matches.image, matches.iou, minlength=images)
    return np.nan_to_num(ratio(weights @ sums, weights @ total))


def mean_iou_of_true(matches: Matches) -> float:
    """NaN when nothing was found."""
    return float(matches.iou[matches.true_positive].mean()) if matches.true_positive.any() else float("nan")
