"""Average precision of boxes in the three definitions that challenges use, with bootstrap replicates over pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from panendofm.scoring.detection.boxes import Boxes, Floats, Matches, match_free, match_highest, overlaps

Curve = Literal["101 points", "all points"]
AREAS = {"small": (-1.0, 100.0**2), "medium": (100.0**2, 200.0**2), "large": (200.0**2, float("inf"))}
_RECALLS = np.linspace(0.0, 1.0, 101)
# Draws that are computed at once; bounds the memory at so many rows of one class's detections.
_BLOCK = 50


@dataclass(frozen=True)
class BoxProfile:
    name: str
    about: str
    thresholds: tuple[float, ...]
    curve: Curve
    free_boxes: bool  # a detection looks for the best free true box; else for the best one, taken or not
    limit: int | None
    extra_px: float = 0.0
    by_area: bool = False


def _steps(first: float, last: float) -> tuple[float, ...]:
    return tuple(round(first + 0.05 * i, 2) for i in range(round((last - first) / 0.05) + 1))


BOX_PROFILES = {
    profile.name: profile
    for profile in (
        BoxProfile("coco", "COCO: 101 recalls, IoU .50:.05:.95", _steps(0.5, 0.95), "101 points", True, 100),
        BoxProfile(
            "endocv2021",
            "COCO's AP, also by box area (100², 200²); score is the mean of the four",
            _steps(0.5, 0.95),
            "101 points",
            True,
            100,
            by_area=True,
        ),
        BoxProfile(
            "endocv2020",
            "all points, IoU .25:.05:.75, one pixel more a side; score = 0.6 mAP + 0.4 IoU",
            _steps(0.25, 0.75),
            "all points",
            False,
            None,
            extra_px=1.0,
        ),
    )
}


def match_class(
    truth: Boxes, detections: Boxes, profile: BoxProfile, areas: tuple[float, float] = (-1.0, float("inf"))
) -> dict[float, Matches]:
    """The matches of one class at each threshold of the profile."""
    overlap = overlaps(truth, detections, profile.limit, profile.extra_px)
    if profile.free_boxes:
        return {t: match_free(overlap, t, areas) for t in profile.thresholds}
    return {t: match_highest(overlap, t) for t in profile.thresholds}


def average_precision(matches: Matches, curve: Curve) -> float:
    """NaN without true boxes."""
    pictures = int(max(matches.picture.max(initial=-1), matches.truth_picture.max(initial=-1))) + 1
    return float(average_precision_replicates(matches, curve, np.ones((1, pictures)))[0])


def average_precision_replicates(matches: Matches, curve: Curve, weights: Floats) -> Floats:
    """AP under each row of picture weights [R, P]; NaN where a draw has no true box.

    Precision can only be highest at a true positive, so the curve is kept at these alone: false positives before each
    are added up.
    """
    parts = [_block(matches, curve, weights[start : start + _BLOCK]) for start in range(0, len(weights), _BLOCK)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _block(matches: Matches, curve: Curve, weights: Floats) -> Floats:
    total = weights[:, matches.truth_picture].sum(axis=1)  # [R] true boxes
    result = np.where(total > 0, 0.0, np.nan)
    counted = ~matches.ignored
    right = matches.true_positive[counted]
    hits = np.flatnonzero(right)
    if not len(hits):
        return np.asarray(result)
    # What comes after the last true positive changes nothing.
    drawn = weights[:, matches.picture[counted][: hits[-1] + 1]]  # [R, D] by falling confidence
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
    """Mean over the classes that have a figure, [K][R] → [R]."""
    table = np.array(values, np.float64)
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    total = np.where(known, table, 0.0).sum(axis=0)
    return np.asarray(np.divide(total, count, out=np.full(table.shape[1:], np.nan), where=count > 0))


def mean_iou_of_all(matches: Matches) -> float:
    """EndoCV2020's IoU: mean over all detections, false ones as 0. It falls with every weak box that is submitted."""
    return float(matches.iou.mean()) if len(matches.iou) else 0.0


def mean_iou_of_true(matches: Matches) -> float:
    """NaN when nothing was found."""
    return float(matches.iou[matches.true_positive].mean()) if matches.true_positive.any() else float("nan")


def detection_score(mean_ap: float, iou: float) -> float:
    """EndoCV2020's score."""
    return 0.6 * mean_ap + 0.4 * iou
