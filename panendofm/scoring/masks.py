"""Masks of one finding: overlap and distance per image, and what a mask says of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist

from panendofm.scoring.classification import rates
from panendofm.scoring.classification.rates import Counts, Floats
from panendofm.scoring.statistics.replicates import mean_replicates

Mask = NDArray[np.bool_]  # [H, W]
OVERLAPS = ("dice", "iou", "precision", "recall", "f2")
_CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)
# DAGI: an image with a finding counts as found when this share of its pixels is marked.
LEAST_SHARE_MARKED = 0.4


@dataclass(frozen=True)
class EmptyRules:
    """What the overlaps are where a side marks nothing. Ours: a correct «nothing» is right, no answer has no precision.

    Distances need no rule: 0 when both sides are empty, the diagonal when one is.
    """

    correct_nothing: float = 1.0
    precision_of_nothing: float = float("nan")


@dataclass(frozen=True)
class Distances:
    hausdorff: float
    hausdorff_95: float
    mean_surface: float


@dataclass(frozen=True)
class MaskMetrics:
    """One image: pixel counts, overlaps (NaN where not defined) and distances in pixels."""

    counts: Counts
    dice: float
    iou: float
    precision: float
    recall: float
    f2: float
    accuracy: float
    distances: Distances
    diagonal: float

    @property
    def has_finding(self) -> bool:
        return bool(self.counts.tp + self.counts.fn > 0)

    @property
    def reports_finding(self) -> bool:
        return bool(self.counts.tp + self.counts.fp > 0)

    def values(self) -> dict[str, float]:
        return {
            **{name: getattr(self, name) for name in (*OVERLAPS, "accuracy")},
            "hausdorff": self.distances.hausdorff,
            "hausdorff_95": self.distances.hausdorff_95,
            "mean_surface_distance": self.distances.mean_surface,
            "hausdorff_over_diagonal": self.distances.hausdorff / self.diagonal,
            "hausdorff_95_over_diagonal": self.distances.hausdorff_95 / self.diagonal,
        }


def pixel_counts(truth: Mask, prediction: Mask) -> Counts:
    tp = np.count_nonzero(truth & prediction)
    fp, fn = np.count_nonzero(prediction) - tp, np.count_nonzero(truth) - tp
    return Counts.of(tp, fp, fn, truth.size - tp - fp - fn)


def mask_metrics(truth: Mask, prediction: Mask, empties: EmptyRules | None = None) -> MaskMetrics:
    rules = empties or EmptyRules()
    counts = pixel_counts(truth, prediction)
    diagonal = hypot(*truth.shape)
    reported = bool(counts.tp + counts.fp > 0)
    present = bool(counts.tp + counts.fn > 0)
    overlap = {name: float(value) for name, value in _overlaps(counts).items()}
    if not reported:
        overlap["precision"] = rules.precision_of_nothing
    distances = Distances(diagonal, diagonal, diagonal)
    if reported and present:
        distances = surface_distances(truth, prediction)
    elif not reported and not present:
        overlap = dict.fromkeys(OVERLAPS, rules.correct_nothing)
        distances = Distances(0.0, 0.0, 0.0)
    return MaskMetrics(
        counts=counts, accuracy=float(rates.accuracy(counts)), distances=distances, diagonal=diagonal, **overlap
    )


def _overlaps(counts: Counts) -> dict[str, Floats]:
    return {
        "dice": rates.f_score(counts),
        "iou": rates.ratio(counts.tp, counts.tp + counts.fp + counts.fn),
        "precision": rates.precision(counts),
        "recall": rates.recall(counts),
        "f2": rates.f_score(counts, 2.0),
    }


def border(mask: Mask) -> Mask:
    """The mask without its erosion by the 4-neighborhood; outside the image is background."""
    inner = cv2.erode(mask.astype(np.uint8), _CROSS, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    return np.asarray(mask & (inner == 0))


def surface_distances(truth: Mask, prediction: Mask) -> Distances:
    """Between the borders of two masks that are not empty, both ways."""
    rows, columns = np.nonzero(truth | prediction)
    window = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
    # All borders lie inside this window, and a border against its edge stays one: outside counts as background.
    first, second = border(truth)[window], border(prediction)[window]
    to_truth, to_prediction = _distance_to(first)[second], _distance_to(second)[first]
    return Distances(
        float(max(to_truth.max(), to_prediction.max())),
        float(max(np.quantile(to_truth, 0.95), np.quantile(to_prediction, 0.95))),
        float(np.concatenate([to_truth, to_prediction]).mean()),
    )


def _distance_to(points: Mask) -> Floats:
    """Distance of every pixel to the nearest point, exact."""
    return np.asarray(distance_transform_edt(~points), np.float64)


def mean_metrics(
    found: Sequence[MaskMetrics], names: Sequence[str], weights: Floats, where: NDArray[np.bool_] | None = None
) -> dict[str, Floats]:
    """Means over images under weights [R, N], each [R]; `where` [N]: over some of the images."""
    values = [metrics.values() for metrics in found]
    result = {}
    for name in names:
        column = np.array([row[name] for row in values])
        result[name] = mean_replicates(column if where is None else np.where(where, column, np.nan), weights)
    return result


def pooled(metrics: Sequence[MaskMetrics], weights: Floats | None = None) -> dict[str, Floats]:
    """Overlaps of all pixels together: large findings count more. Under weights [R, N] each is [R]."""
    w = np.ones(len(metrics)) if weights is None else weights
    counts = Counts.of(*(w @ np.array([getattr(m.counts, n) for m in metrics]) for n in ("tp", "fp", "fn", "tn")))
    return _overlaps(counts)


def frame_verdict(abnormal: int, of_them_marked: int, marked_elsewhere: int) -> Literal["tp", "fp", "fn", "tn"]:
    """DAGI's rule for a frame, from counts of pixels."""
    if abnormal:
        return "tp" if of_them_marked >= LEAST_SHARE_MARKED * abnormal else "fn"
    return "fp" if of_them_marked + marked_elsewhere else "tn"


def class_confusion(truth: NDArray[np.integer], prediction: NDArray[np.integer], classes: int) -> Floats:
    """Pixels [true class, predicted class]."""
    cells = truth.astype(np.int64).ravel() * classes + prediction.astype(np.int64).ravel()
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes).astype(np.float64)


def class_ious(confusion: Floats) -> Floats:
    """IoU of each class [..., C]; NaN where it is absent from both sides."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return rates.ratio(right, confusion.sum(axis=-1) + confusion.sum(axis=-2) - right)


@dataclass(frozen=True)
class Size:
    """A finding's size."""

    area_px: int
    share: float
    longest_px: float
    box: tuple[int, int, int, int]


def size_of(mask: Mask) -> Size | None:
    """Of everything in the mask; None when it is empty. Longest: between centers of border pixels."""
    rows, columns = np.nonzero(mask)
    if not len(rows):
        return None
    points = np.argwhere(border(mask)).astype(np.float64)
    if len(points) > 3:
        try:
            points = points[ConvexHull(points).vertices]
        except QhullError:  # all on one line: the ends are among the points
            points = points[[points.sum(axis=1).argmin(), points.sum(axis=1).argmax(), *_ends(points)]]
    longest = float(pdist(points).max()) if len(points) > 1 else 0.0
    x, y = int(columns.min()), int(rows.min())
    box = (x, y, int(columns.max()) - x + 1, int(rows.max()) - y + 1)
    return Size(len(rows), len(rows) / mask.size, longest, box)


def _ends(points: Floats) -> list[int]:
    return [int(f(points[:, axis])) for axis in (0, 1) for f in (np.argmin, np.argmax)]
