"""The teal box that a scope-position display burns into the lower left of the image."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.shrink import shrink

# OpenCV hue runs to 180; the display's ground is a saturated green-blue that neither tissue nor dye shows so flatly.
_LOWEST = np.array([76, 120, 70], np.uint8)
_HIGHEST = np.array([92, 255, 255], np.uint8)

_SEARCHED_PX = 320
# Shares of the frame.
_SMALLEST, _LARGEST = 0.01, 0.25

Box = tuple[int, int, int, int]  # left, top, right, bottom (the last two exclusive)


def position_box(image: NDArray[np.uint8]) -> Box | None:
    """The box in an RGB image, or None.

    It must be a filled rectangle of one color, 1 to 25% of the frame, that touches its lower half. A large image is
    searched at half its size or less first: most have no box.
    """
    height, width = image.shape[:2]
    scale = _SEARCHED_PX / max(height, width)
    if scale <= 0.5 and _find(shrink(image, (round(width * scale), round(height * scale)))) is None:
        return None
    return _find(image)


def _find(image: NDArray[np.uint8]) -> Box | None:
    height, width = image.shape[:2]
    teal = cv2.inRange(cv2.cvtColor(image, cv2.COLOR_RGB2HSV), _LOWEST, _HIGHEST)
    teal = cv2.morphologyEx(teal, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    if cv2.countNonZero(teal) < _SMALLEST * width * height:
        return None
    _, labels, statistics, _ = cv2.connectedComponentsWithStats(teal, connectivity=4)
    label = 1 + int(np.argmax(statistics[1:, cv2.CC_STAT_AREA]))
    left, top, w, h, area = (int(v) for v in statistics[label])
    if not _SMALLEST <= area / (width * height) <= _LARGEST or area < 0.6 * w * h or top + h < height / 2:
        return None
    if not _is_flat(image[labels == label]):
        return None
    # The display's edge fades over a pixel or two.
    edge = max(1, round(0.006 * max(width, height)))
    return max(left - edge, 0), max(top - edge, 0), min(left + w + edge, width), min(top + h + edge, height)


def position_box_mask(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[H, W], 255 on the box."""
    mask = np.zeros(image.shape[:2], np.uint8)
    box = position_box(image)
    if box is not None:
        mask[box[1] : box[3], box[0] : box[2]] = 255
    return mask


def _is_flat(pixels: NDArray[np.uint8]) -> bool:
    """Whether most of the pixels [N, 3] have nearly one color; dyed mucosa is of many."""
    typical = np.median(pixels, axis=0)
    near = np.abs(pixels.astype(np.int16) - typical).max(axis=1) < 24
    return bool(near.mean() > 0.75)
