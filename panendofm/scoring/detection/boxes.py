"""Boxes: overlap, and which detection finds which true box.

A box is [x, y, w, h], x and y its top left corner, in pixels of the original image.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# COCO compares with a little less than 1, so that a perfect overlap counts at a threshold of 1.
_ALMOST_ONE = 1 - 1e-10


def box_iou(a: ArrayLike, b: ArrayLike, extra_px: float = 0.0) -> Floats:
    """Overlap of boxes [A, 4] and [B, 4] as [A, B]; `extra_px` is added to each side, as the EndoCV2020 scripts do."""
    first = np.asarray(a, np.float64).reshape(-1, 1, 4)
    second = np.asarray(b, np.float64).reshape(1, -1, 4)
    low = np.maximum(first[..., :2], second[..., :2])
    high = np.minimum(first[..., :2] + first[..., 2:], second[..., :2] + second[..., 2:])
    common = np.prod(np.maximum(high - low + extra_px, 0.0), axis=-1)
    areas = np.prod(first[..., 2:] + extra_px, axis=-1) + np.prod(second[..., 2:] + extra_px, axis=-1)
    return np.asarray(common / np.maximum(areas - common, 1e-300))


@dataclass(frozen=True)
class Boxes:
    """Boxes of one class in many images, in file order."""

    image: Integers  # [N]
    box: Floats  # [N, 4]
    confidence: Floats  # [N]; ones for the truth

    @staticmethod
    def of(rows: Sequence[tuple[int, Sequence[float], float]]) -> Boxes:
        """From (image, box, confidence)."""
        return Boxes(
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.float64).reshape(-1, 4),
            np.array([row[2] for row in rows], np.float64),
        )

    def __len__(self) -> int:
        return len(self.image)

    def area(self) -> Floats:
        return np.asarray(self.box[:, 2] * self.box[:, 3])

    def take(self, index: Integers | Flags) -> Boxes:
        return Boxes(self.image[index], self.box[index], self.confidence[index])


@dataclass(frozen=True)
class Overlaps:
    """Every image that has detections, with their overlaps: computed once, matched at every threshold."""

    detections: Boxes  # by falling confidence, equal ones in file order
    truth: Boxes
    rows: list[tuple[Integers, Integers, Floats]]  # detections [D], true boxes [T], overlap [D, T] of each image


def overlaps(truth: Boxes, detections: Boxes, limit: int | None = 100, extra_px: float = 0.0) -> Overlaps:
    """Sort the detections, keep at most `limit` a image, and compare them with the true boxes."""
    ranked = detections.take(np.argsort(-detections.confidence, kind="stable"))
    if limit is not None:
        ranked = ranked.take(_position_in_image(ranked.image) < limit)
    true_of: dict[int, list[int]] = defaultdict(list)
    found_in: dict[int, list[int]] = defaultdict(list)
    for i, image in enumerate(truth.image.tolist()):
        true_of[image].append(i)
    for i, image in enumerate(ranked.image.tolist()):
        found_in[image].append(i)
    rows = []
    for image, inside in found_in.items():
        own, true = np.array(inside, np.int64), np.array(true_of.get(image, []), np.int64)
        rows.append((own, true, box_iou(ranked.box[own], truth.box[true], extra_px)))
    return Overlaps(ranked, truth, rows)


def _position_in_image(image: Integers) -> Integers:
    """0, 1, 2 … for the detections of each image in their order."""
    order = np.argsort(image, kind="stable")
    starts = np.flatnonzero(np.r_[True, image[order][1:] != image[order][:-1]]) if len(image) else order
    position = np.empty(len(image), np.int64)
    position[order] = np.arange(len(image)) - np.repeat(starts, np.diff(np.r_[starts, len(image)]))
    return position


@dataclass(frozen=True)
class Matches:
    """What became of each detection at one threshold, by falling confidence."""

    image: Integers  # [D]
    confidence: Floats  # [D]
    true_positive: Flags  # [D]
    ignored: Flags  # [D]; outside the asked range of areas: neither right nor wrong
    iou: Floats  # [D]; 0 for false positives
    matched: Integers  # [D]; number of the true box, -1 without one
    truth_image: Integers  # [T]; image of each true box that counts
    missed: Integers  # numbers of the true boxes that count and were not found


def match_free(overlap: Overlaps, threshold: float, areas: tuple[float, float] = (-1.0, float("inf"))) -> Matches:
    """COCO's rule: each detection takes the free true box of highest overlap. Areas: (above, up to)."""
    found, truth = overlap.detections, overlap.truth
    outside = ~_within(truth.area(), areas)
    matched = np.full(len(found), -1, np.int64)
    iou = np.zeros(len(found))
    ignored = np.zeros(len(found), bool)
    lowest = min(threshold, _ALMOST_ONE)
    for own, true, table in overlap.rows:
        if not len(true):
            continue
        # Boxes that count come first, and an ignored one is taken only when none of them fits.
        order = np.argsort(outside[true], kind="stable")
        values, numbers, skip = table[:, order].tolist(), true[order].tolist(), outside[true][order].tolist()
        free = [True] * len(numbers)
        for detection, row in zip(own.tolist(), values, strict=True):
            best, place = lowest, -1
            for j, value in enumerate(row):
                if not free[j]:
                    continue
                if place >= 0 and not skip[place] and skip[j]:
                    break
                if value >= best:
                    best, place = value, j
            if place >= 0:
                free[place] = False
                matched[detection], iou[detection], ignored[detection] = numbers[place], best, skip[place]
    ignored |= (matched < 0) & ~_within(found.area(), areas)
    return _matches(overlap, matched, ignored, iou, ~outside)


def match_highest(overlap: Overlaps, threshold: float) -> Matches:
    """The rule of EndoCV2020: the true box of highest overlap, taken or not; a taken one makes it a false positive."""
    matched = np.full(len(overlap.detections), -1, np.int64)
    iou = np.zeros(len(overlap.detections))
    for own, true, table in overlap.rows:
        if not len(true):
            continue
        taken: set[int] = set()
        for detection, place, value in zip(own, table.argmax(axis=1), table.max(axis=1), strict=True):
            if value >= threshold and int(place) not in taken:
                taken.add(int(place))
                matched[detection], iou[detection] = true[place], value
    counted = np.ones(len(overlap.truth), bool)
    return _matches(overlap, matched, np.zeros(len(matched), bool), iou, counted)


def _within(area: Floats, areas: tuple[float, float]) -> Flags:
    return np.asarray((area > areas[0]) & (area <= areas[1]))


def _matches(overlap: Overlaps, matched: Integers, ignored: Flags, iou: Floats, counted: Flags) -> Matches:
    right = (matched >= 0) & ~ignored
    free = counted.copy()
    free[matched[matched >= 0]] = False
    return Matches(
        overlap.detections.image,
        overlap.detections.confidence,
        right,
        ignored,
        np.where(right, iou, 0.0),
        matched,
        overlap.truth.image[counted],
        np.flatnonzero(free),
    )
