"""A ground of one bright color around the image: a recorder's screen, a white border."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.channels import highest_channel

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Mask = NDArray[np.uint8]  # [H, W], 0 or 255

# A ground as dark as this is found by its darkness.
DARKEST = 45
# A screen may stand in a border, and in the screen a window.
_NESTED = 3


def image_on_background(frames: Sequence[Image]) -> Mask | None:
    """Where the image stands on such a ground, in small frames of one size; None when there is no such ground.

    The ground's color is the commonest at the frame's edge. Of what differs from it, the largest part that is not
    flat is the image; panels, thumbnails and text are smaller or flat.
    """
    height, width = frames[0].shape[:2]
    left, top, right, bottom = 0, 0, width, height
    found = None
    for _ in range(_NESTED):
        part = _largest_part([frame[top:bottom, left:right] for frame in frames])
        if part is None:
            break
        found = np.zeros((height, width), np.uint8)
        found[top:bottom, left:right] = part
        x, y, w, h = cv2.boundingRect(found)
        left, top, right, bottom = x, y, x + w, y + h
    return found


def _largest_part(frames: Sequence[Image]) -> Mask | None:
    color = _color_of_edge(frames)
    if color is None:
        return None
    height, width = frames[0].shape[:2]
    ground = np.full((height, width), 255, np.uint8)
    flat = ground.copy()
    for frame in frames:
        away = highest_channel(cv2.absdiff(frame, np.broadcast_to(color.astype(np.uint8), frame.shape).copy()))
        ground[away > 16] = 0
        spread = highest_channel(cv2.morphologyEx(frame, cv2.MORPH_GRADIENT, np.ones((5, 5), np.uint8)))
        flat[(spread > 3) | (highest_channel(frame) <= DARKEST)] = 0
    # Its edge is a mixture of both.
    ground = cv2.dilate(_touching_the_edge(ground), np.ones((3, 3), np.uint8))
    side = max(3, round(max(height, width) * 0.045)) | 1
    rest = cv2.bitwise_not(cv2.bitwise_or(ground, flat))
    rest = cv2.morphologyEx(
        rest, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), borderType=cv2.BORDER_CONSTANT
    )
    count, _, statistics, _ = cv2.connectedComponentsWithStats(rest, connectivity=4)
    if count < 2:
        return None
    x, y, w, h, area = (int(v) for v in statistics[1 + int(np.argmax(statistics[1:, cv2.CC_STAT_AREA]))])
    if area < 0.1 * height * width or area < 0.6 * w * h:
        return None
    part = np.zeros((height, width), np.uint8)
    part[y : y + h, x : x + w] = cv2.bitwise_not(ground)[y : y + h, x : x + w]
    return part


def _color_of_edge(frames: Sequence[Image]) -> NDArray[np.float64] | None:
    """The color [3] that most of the frame's edge has, if it is bright and flat."""
    b = max(2, round(0.012 * max(frames[0].shape[:2])))
    edges = [strip.reshape(-1, 3) for f in frames for strip in (f[:b], f[-b:], f[b:-b, :b], f[b:-b, -b:])]
    pixels = np.concatenate(edges).astype(np.int32)
    bins = (pixels // 16) @ np.array([1, 16, 256])
    values, counts = np.unique(bins, return_counts=True)
    color = np.median(pixels[bins == values[np.argmax(counts)]], axis=0)
    away = np.abs(pixels - color).max(axis=1)
    near = away <= 12
    if color.max() <= DARKEST or near.mean() < 0.5 or np.mean(away[near] <= 3) < 0.8:
        return None
    return np.asarray(color)


def _touching_the_edge(mask: Mask) -> Mask:
    """The parts of the mask that reach the frame's edge."""
    _, labels = cv2.connectedComponents(mask, connectivity=4)
    edge = np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]))
    return np.asarray(np.isin(labels, edge[edge > 0]) * 255, np.uint8)
