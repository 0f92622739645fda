"""Labels that cover a corner of the frame and bite into the view: one-colored plates, or text on black."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.channels import highest_channel
from panendofm.imaging.frame_filters.position_box import Box

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Mask = NDArray[np.uint8]  # [H, W], not 0 where it holds

_WIDEST, _HIGHEST, _SMALLEST = 0.6, 0.35, 0.002  # of the frame


def plates_in_corners(frames: Sequence[Image], level: Mask) -> Mask:
    """[H, W], 255 on rectangles of one color in the frame's corners. `level` is 0 on the position box."""
    height, width = level.shape
    flat = (level > 45).astype(np.uint8)
    for frame in frames:
        flat[highest_channel(cv2.morphologyEx(frame, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))) > 4] = 0
    plates = np.zeros((height, width), np.uint8)
    if cv2.countNonZero(flat) < _SMALLEST * height * width:
        return plates
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(flat, connectivity=4)
    for label in _like_plates(statistics, height, width):
        x, y, w, h = (int(v) for v in statistics[label, :4])
        part = labels[y : y + h, x : x + w] == label
        closed = cv2.morphologyEx(part.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((h // 2 | 1, h // 2 | 1), np.uint8))
        pixels = frames[0][y : y + h, x : x + w][part].astype(np.int16)
        away = np.abs(pixels - np.median(pixels, axis=0)).max(axis=1)
        if closed.mean() >= 0.85 and np.mean(away <= 5) >= 0.9:
            # The gradient that tells flat from not is two pixels wide, as is the plate's edge.
            plates[max(0, y - 2) : y + h + 2, max(0, x - 2) : x + w + 2] = 255
    return plates


def _like_plates(statistics: NDArray[np.int32], height: int, width: int) -> NDArray[np.int64]:
    """Which rows of [components, (x, y, w, h, area)] lie in a corner and are of a label's size; row 0 is the rest."""
    x, y, w, h, area = statistics.T
    size = (area >= _SMALLEST * height * width) & (w <= _WIDEST * width) & (h <= _HIGHEST * height)
    from_side, from_end = np.minimum(x, width - x - w), np.minimum(y, height - y - h)
    fitting = size & (from_side <= 0.05 * width) & (from_end <= 0.05 * height)
    fitting[0] = False
    return np.flatnonzero(fitting)


def covered_corners(body: Mask, letters: Mask, plates: Mask, hull: NDArray[np.float32]) -> list[Box]:
    """Rectangles in the frame's corners that reach into the hull [N, 2] and show letters or a plate instead of image.

    `body` [H, W] is where the image is (without plates), `letters` what is bright and not part of it.
    """
    height, width = body.shape
    found: list[Box] = []
    for flip_y in (False, True):
        for flip_x in (False, True):
            turn = np.s_[:: -1 if flip_y else 1, :: -1 if flip_x else 1]
            size = _empty_rectangle(body[turn])
            if size is None:
                continue
            w, h = size
            far = (width - w if flip_x else w, height - h if flip_y else h)
            depth = cv2.pointPolygonTest(hull.reshape(-1, 1, 2), (float(far[0]), float(far[1])), True)
            ink = float((letters[turn][:h, :w] > 0).mean())
            plate = float((plates[turn][:h, :w] > 0).mean())
            if depth >= 0.02 * max(height, width) and (plate >= 0.4 or 0.01 <= ink <= 0.6):
                left, top = (width - w if flip_x else 0), (height - h if flip_y else 0)
                found.append((left, top, left + w, top + h))
    return found


def _empty_rectangle(body: Mask) -> tuple[int, int] | None:
    """Width and height of the largest rectangle from the upper left corner without image, if image surrounds it."""
    height, width = body.shape
    h, w = round(_HIGHEST * height), round(_WIDEST * width)
    filled = cv2.integral((body[:h, :w] > 0).astype(np.uint8))[1:, 1:]  # [h, w], image up to there
    area = np.arange(1, h + 1)[:, None] * np.arange(1, w + 1)[None]
    area = np.where(filled <= 0.005 * area, area, 0)
    y, x = (int(v) + 1 for v in np.unravel_index(np.argmax(area), area.shape))
    if area.max() < 0.003 * height * width or x >= w or y >= h:
        return None
    beside, below = body[y // 2 : y, x : x + 5] > 0, body[y : y + 5, x // 2 : x] > 0
    if beside.mean() < 0.6 or below.mean() < 0.6:
        return None
    return x, y
