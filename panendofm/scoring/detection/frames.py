"""What an endoscopist notices of a detector: frames flagged, sensitivity against false alarms, points in findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.scoring.classification.rates import Counts
from panendofm.scoring.detection.boxes import Flags, Floats, Integers, Matches

# False positives a frame at which a FROC curve is read.
FROC_POINTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def box_counts(images: int, matches: Matches, confidence: float, weights: Floats | None = None) -> Counts:
    """Boxes with at least this confidence, right or wrong, and missed true ones; under weights [R, P], each is [R].

    There are no true negatives: nobody can count the boxes that were rightly not drawn.
    """
    shown = (matches.confidence >= confidence) & ~matches.ignored
    right = shown & matches.true_positive
    parts = [
        np.bincount(matches.image[right], minlength=images),
        np.bincount(matches.image[shown & ~right], minlength=images),
        np.bincount(matches.truth_image, minlength=images),
    ]
    w = np.ones((1, images)) if weights is None else weights
    tp, fp, true = (w @ part.astype(np.float64) for part in parts)
    if weights is None:
        tp, fp, true = tp[0], fp[0], true[0]
    return Counts.of(tp, fp, true - tp, np.zeros_like(tp))


def frame_counts(
    images: int, matches: Matches, place: bool, confidence: float = 0.5, weights: Floats | None = None
) -> Counts:
    """Frames by verdict: with the finding or not, reported or not. `place`: where there is one, a box must hit it.

    Boxes below `confidence` are not shown to anybody.

    With weights [R, P] the counts are [R].
    """
    has, reported, hit = (np.zeros(images, bool) for _ in range(3))
    has[matches.truth_image] = True
    shown = matches.confidence >= confidence
    reported[matches.image[shown]] = True
    hit[matches.image[shown & matches.true_positive]] = True
    found = hit if place else reported
    kinds: list[Flags] = [has & found, ~has & reported, has & ~found, ~has & ~reported]
    w = np.ones((1, images)) if weights is None else weights
    tp, fp, fn, tn = (w @ kind.astype(np.float64) for kind in kinds)
    return Counts(tp, fp, fn, tn) if weights is not None else Counts(tp[0], fp[0], fn[0], tn[0])


def froc(matches: Matches, images: int, weights: Floats | None = None) -> Floats:
    """Sensitivity at each of FROC_POINTS false positives a frame [7], or [R, 7] under image weights [R, P]."""
    w = np.ones((1, images)) if weights is None else weights
    frames, total = w.sum(axis=1), w[:, matches.truth_image].sum(axis=1)
    result = np.full((len(w), len(FROC_POINTS)), np.nan)
    counted = ~matches.ignored
    right, drawn_from = matches.true_positive[counted], matches.image[counted]
    for i in np.flatnonzero((total > 0) & (frames > 0)):
        drawn = w[i, drawn_from]
        alarms = np.cumsum(np.where(right, 0.0, drawn)) / frames[i]
        hits = np.r_[0.0, np.cumsum(np.where(right, drawn, 0.0))]
        # All boxes up to the last at which the alarms stay within the limit.
        result[i] = hits[np.searchsorted(alarms, FROC_POINTS, side="right")] / total[i]
    return result if weights is not None else np.asarray(result[0])


@dataclass(frozen=True)
class PointCounts:
    tp: int
    fp: int
    fn: int


def points_in_parts(parts: Integers, count: int, points: Sequence[tuple[float, float]]) -> PointCounts:
    """APDCV's rule for numbered findings [H, W], 0 where there is none.

    A finding with a point in it is found once, a point outside is a false alarm.
    """
    height, width = parts.shape
    found: set[int] = set()
    outside = 0
    for x, y in points:
        inside = 0 <= x < width and 0 <= y < height
        number = int(parts[int(y), int(x)]) if inside else 0
        if number:
            found.add(number)
        else:
            outside += 1
    return PointCounts(len(found), outside, count - len(found))
