"""Visual prompts: outlines around regions, in colors that show on mucosa."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.vqa.bench.items import MarkedRegion

COLORS = {"red": (230, 25, 25), "green": (25, 200, 25), "blue": (40, 80, 255), "yellow": (250, 220, 20)}
SINGLE = "green"
MULTI_CONTOUR = "multi_contour"
# Kinds of visual prompt that follow the outline of a region.
OUTLINED = ("contour", MULTI_CONTOUR)
_DARK = (20, 20, 20)


def line_px(width: int, height: int) -> int:
    return max(2, round(0.004 * max(width, height)))


def draw_marks(image: NDArray[np.uint8], regions: Sequence[MarkedRegion], outline: bool = False) -> NDArray[np.uint8]:
    """The image [H, W, 3] with every colored region outlined: along its polygon with `outline`, else along its box.

    Lines run outside the region, so that they hide nothing of it, and have a dark edge of one pixel on both sides.
    """
    result = image.copy()
    height, width = image.shape[:2]
    line = line_px(width, height)
    for region in regions:
        if not region.color:
            continue
        inner = np.zeros((height, width), np.uint8)
        if outline and region.polygon:
            cv2.fillPoly(inner, [np.array(region.polygon, np.int32)], 1)
            shape = cv2.MORPH_ELLIPSE
        else:
            x1, y1, x2, y2 = region.box
            inner[y1:y2, x1:x2] = 1
            shape = cv2.MORPH_RECT
        rings = [inner] + [_grown(inner, by, shape) for by in (1, 1 + line, 2 + line)]
        for (low, high), color in zip(pairwise(rings), (_DARK, COLORS[region.color], _DARK), strict=True):
            result[(high > 0) & (low == 0)] = color
    return result


def _grown(mask: NDArray[np.uint8], by: int, shape: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.dilate(mask, cv2.getStructuringElement(shape, (2 * by + 1, 2 * by + 1))), np.uint8)


def encode_png(image: NDArray[np.uint8]) -> bytes:
    """Without loss, so that lines keep their colors."""
    return _encode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 3])


def encode_jpeg(image: NDArray[np.uint8], quality: int = 95) -> bytes:
    return _encode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])


def _encode(kind: str, image: NDArray[np.uint8], settings: list[int]) -> bytes:
    done, content = cv2.imencode(kind, cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
    if not done:
        raise RuntimeError(f"OpenCV could not encode an image of shape {image.shape} as {kind}")
    return bytes(content)
