"""One box for one lesion: how well it fits, and in which coordinates a reply meant it.

Boxes here are corners [x1, y1, x2, y2] in pixels, right and bottom excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from shapely import Polygon, make_valid
from shapely import box as shapely_box
from shapely.ops import unary_union

from panendofm.scoring.answers.box_replies import CONVENTIONS, read_boxes
from panendofm.scoring.detection.boxes import box_iou
from panendofm.scoring.statistics.intervals import percentile_interval

Floats = NDArray[np.float64]
THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(21))
# Another convention must fit so much better before it is named.
NOTABLE = 0.05


def corner_iou(a: ArrayLike, b: ArrayLike) -> Floats:
    """Overlap of boxes [A, 4] and [B, 4] as [A, B]; an empty box overlaps nothing."""
    first, second = (np.asarray(boxes, np.float64).reshape(-1, 4) for boxes in (a, b))
    first, second = (np.concatenate([x[:, :2], np.maximum(x[:, 2:] - x[:, :2], 0)], axis=1) for x in (first, second))
    return box_iou(first, second)


# ------------------------------------------------------------------------------------------ how well they fit


def iou_first(truth: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]) -> float:
    """Overlap of the first box with the true one that it fits best; 0 without a box."""
    return float(corner_iou(predicted[:1], truth).max()) if len(predicted) and len(truth) else 0.0


def iou_best_match(truth: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]) -> float:
    """Overlap of the best pair, as it was published: who guesses often gains."""
    return float(corner_iou(predicted, truth).max()) if len(predicted) and len(truth) else 0.0


def union_iou(truth: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]) -> float:
    """Overlap of the merged areas."""
    if not len(truth) or not len(predicted):
        return 0.0
    one, other = (unary_union([shapely_box(*box) for box in boxes]) for boxes in (truth, predicted))
    return float(one.intersection(other).area / one.union(other).area)


def iou_with_truth(truth: Sequence[Sequence[float]], predicted: Sequence[Sequence[float]]) -> float:
    """Overlap of the first box with the true area: several true boxes of one lesion are merged."""
    return union_iou(truth, predicted[:1]) if len(truth) > 1 else iou_first(truth, predicted)


def outline_iou(outlines: Sequence[Sequence[Sequence[float]]], boxes: Sequence[Sequence[float]]) -> float:
    """Overlap of boxes with the area that true outlines enclose; 0 without a box."""
    if not len(outlines) or not len(boxes):
        return 0.0
    true = unary_union([make_valid(Polygon(points)) for points in outlines])
    said = unary_union([shapely_box(*box) for box in boxes])
    whole = true.union(said).area
    return float(true.intersection(said).area / whole) if whole else 0.0


def recall_at(overlaps: Floats, threshold: float) -> float:
    """Share of all images whose overlap reaches the threshold; at 0 it is 1."""
    return float(np.mean(np.asarray(overlaps) >= threshold - 1e-12))


def recall_curve(overlaps: Floats) -> dict[float, float]:
    """At 0, 0.05, … 1. The area under the exact curve is the mean overlap."""
    return {threshold: recall_at(overlaps, threshold) for threshold in THRESHOLDS}


@dataclass(frozen=True)
class ConventionCheck:
    """Mean overlap when all replies are read in each convention, and the one that fits notably better, if any."""

    mean_iou: dict[str, float]
    better: str | None
    gain_interval: tuple[float, float] | None


def check_conventions(
    replies: Sequence[str],
    truths: Sequence[Sequence[Sequence[float]]],
    sizes: Sequence[tuple[int, int]],
    set_convention: str,
    weights: Floats,
) -> ConventionCheck:
    """Whether the replies look as if another convention was meant: 0.05 better, with an interval above 0."""
    overlaps = {
        name: np.array(
            [iou_with_truth(t, read_boxes(r, s, name).boxes) for r, t, s in zip(replies, truths, sizes, strict=True)]
        )
        for name in CONVENTIONS
    }
    means = {name: float(values.mean()) for name, values in overlaps.items()}
    best = max(CONVENTIONS, key=lambda name: means[name])
    if means[best] - means[set_convention] < NOTABLE:
        return ConventionCheck(means, None, None)
    gain = overlaps[best] - overlaps[set_convention]
    interval = percentile_interval((weights @ gain) / weights.sum(axis=1))
    certain = interval is not None and interval.low > 0
    return ConventionCheck(means, best if certain else None, interval)
