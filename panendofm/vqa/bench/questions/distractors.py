"""Boxes that look like the true one but hold something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.answers.localization import corner_iou
from panendofm.vqa.bench.config import DistractorConfig

Box = tuple[int, int, int, int]
InsideShare = Callable[[NDArray[np.int64]], NDArray[np.float64]]  # boxes [N, 4] → share inside the field of view [N]


def refusal_of(
    box: Sequence[int],
    truth: Sequence[int],
    true_boxes: Sequence[Sequence[int]],
    accepted: Sequence[Sequence[int]],
    inside: InsideShare,
    config: DistractorConfig,
) -> str | None:
    """Why a box can't be a distractor; None when it can."""
    size, wanted = (box[2] - box[0], box[3] - box[1]), (truth[2] - truth[0], truth[3] - truth[1])
    factors = [side / of for side, of in zip(size, wanted, strict=True)]
    if min(factors) < config.min_size_factor or max(factors) > config.max_size_factor:
        return "size"
    if inside(np.array([box], np.int64))[0] < config.min_share_in_view:
        return "outside the view"
    if corner_iou([box], list(true_boxes)).max(initial=0.0) > config.max_iou_with_truth:
        return "overlaps the truth"
    if accepted and corner_iou([box], list(accepted)).max() > config.max_iou_between:
        return "overlaps a distractor"
    return None


def draw_distractors(
    truth: Box,
    true_boxes: Sequence[Box],
    count: int,
    size: tuple[int, int],
    inside: InsideShare,
    config: DistractorConfig,
    random: np.random.Generator,
) -> list[Box] | None:
    """`count` wrong boxes in an image of `size` (width, height), or None when there is no room."""
    accepted: list[Box] = []
    # Truth and distractors are drawn from one range of sizes, of which the truth's place is drawn first: so it is the
    # largest, the smallest or in the middle equally often, and sizes tell nothing.
    half = min(-log(config.min_size_factor), log(config.max_size_factor)) / 2
    place = random.uniform(-half, half, 2)
    for _ in range(count):
        factors = np.exp(random.uniform(-half, half, (config.tries, 2)) - place)
        boxes = _proposals(truth, size, factors, random)
        # The cheap tests of all proposals at once; the first that passes is looked at closely.
        good = inside(boxes) >= config.min_share_in_view
        good &= corner_iou(boxes, list(true_boxes)).max(axis=1) <= config.max_iou_with_truth
        if accepted:
            good &= corner_iou(boxes, accepted).max(axis=1) <= config.max_iou_between
        found = None
        for row in boxes[good]:
            box: Box = (int(row[0]), int(row[1]), int(row[2]), int(row[3]))
            if refusal_of(box, truth, true_boxes, accepted, inside, config) is None:
                found = box
                break
        if found is None:
            return None
        accepted.append(found)
    return accepted


def _proposals(
    truth: Box, size: tuple[int, int], factors: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Boxes [tries, 4] anywhere in the image, so many times as wide and high as the truth."""
    sides = np.rint(factors * [truth[2] - truth[0], truth[3] - truth[1]]).astype(np.int64)
    sides = np.minimum(np.maximum(sides, 1), np.array(size))
    low = np.floor(random.uniform(0, 1, (len(factors), 2)) * (np.array(size) - sides + 1)).astype(np.int64)
    return np.concatenate([low, low + sides], axis=1)
