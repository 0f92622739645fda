"""The network that marks text, run only where an image has strokes like letters.

For a whole image the network takes a fraction of a second, nearly always for nothing: most images hold no text. Small
letters are sought in the enlarged image, large ones at half of that size, in a quarter of the time. Where windows show
text, the whole image is looked at: a window shows less of a line whose letters fade.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.text_detector.strokes import Mask, strokes_like_letters
from panendofm.imaging.text_detector.windows import covering_boxes

Image = NDArray[np.uint8]  # [H, W, 3]
Polygon = NDArray[np.float32]  # [4, 2] x, y
Heat = NDArray[np.float32]  # [H, W], how much a pixel looks like text, 0 to 1

# The detector misses letters of six pixels, which frames of 352x240 have: small images are enlarged for it, to this
# side or by the first of these factors, whichever is more, and at most by the second.
_ENLARGED_PX, _ENLARGED, _LARGEST_SCALE = 640, 1.8, 3.0
# The detector's threshold: below it, folds and vessels are found everywhere.
_MIN_SCORE = 0.3
# From this on a pixel counts as hot.
_HOT = 0.3
# The network halves its input five times, and judges letters by what is around them.
_CELL_PX, _AROUND_PX = 32, 40
# Small letters that are enlarged even more than this are judged by the whole image, and so are all where windows would
# cover more than this share of it: in a part of an image the network misses one text in thirty.
_LARGE_SCALE, _MOST_IN_WINDOWS = 2.5, 0.5
# Edges per pixel from which strokes may be letters, in the image and, for large ones, at half its size. Of 198 lines
# that are found in whole images, real and planted, one in a hundred has fewer.
_EDGES, _EDGES_AT_HALF = 0.43, 0.36


def detect_text(detector: Any, rgb: Image, detector_px: int) -> tuple[list[Polygon], list[float]]:
    """Quadrilaterals [4, 2] around text, clockwise, with the detector's scores. `detector` is rapidocr's.

    It sees the image's shorter side at `detector_px`, but enlarges small images no more than helps.
    """
    height, width = rgb.shape[:2]
    size = _enlarged(width, height, detector_px)
    gray = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)
    letters = _marked(strokes_like_letters(gray, _EDGES), size)
    half = np.asarray(cv2.resize(gray, ((width + 1) // 2, (height + 1) // 2), interpolation=cv2.INTER_AREA), np.uint8)
    large_letters = strokes_like_letters(half, _EDGES_AT_HALF)
    if large_letters.any():
        coarse = (_in_cells(size[0] / 2), _in_cells(size[1] / 2))
        heat = _heat(detector, rgb, coarse, _marked(large_letters, coarse))
        letters |= _marked((heat > _HOT).astype(np.uint8), size)
    if not letters.any():
        return [], []
    if size[0] > _LARGE_SCALE * width or _share_in_windows(letters) > _MOST_IN_WINDOWS:
        letters[:] = 1
    heat = _heat(detector, rgb, size, letters)
    if not letters.all() and (heat > _HOT).any():
        heat = _heat(detector, rgb, size, np.ones_like(letters))
    return _outlines(detector, heat, width, height)


def _enlarged(width: int, height: int, detector_px: int) -> tuple[int, int]:
    """Width and height that the network sees of a whole image."""
    side = min(height, width)
    enlarged = min(max(_ENLARGED * side, _ENLARGED_PX), _LARGEST_SCALE * side)
    scale = max(1.0, min(detector_px, round(enlarged)) / side)
    return _in_cells(width * scale), _in_cells(height * scale)


def _in_cells(length: float) -> int:
    return max(1, round(int(length) / _CELL_PX)) * _CELL_PX


def _marked(mask: Mask, size: tuple[int, int]) -> Mask:
    """[rows, columns], 1 on cells of an image of `size` on which the mask [H, W] holds, or which are near to one."""
    large = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
    near = cv2.dilate(large, np.ones((2 * _AROUND_PX + 1, 2 * _AROUND_PX + 1), np.uint8))
    by_cell = near.reshape(size[1] // _CELL_PX, _CELL_PX, size[0] // _CELL_PX, _CELL_PX)
    return np.asarray(by_cell.max(axis=(1, 3)), np.uint8)


def _share_in_windows(marked: Mask) -> float:
    """How much of an image the windows around marked cells take, 1 for all of it."""
    cells = sum((right - left) * (bottom - top) for left, top, right, bottom in covering_boxes(marked))
    return cells / marked.size


def _heat(detector: Any, rgb: Image, size: tuple[int, int], marked: Mask) -> Heat:
    """[height, width] of `size`, which the image is enlarged to: what the network says on the marked cells."""
    heat = np.zeros((size[1], size[0]), np.float32)
    seen = np.asarray(cv2.resize(rgb, size), np.uint8)
    for left, top, right, bottom in covering_boxes(marked):
        window = np.s_[top * _CELL_PX : bottom * _CELL_PX, left * _CELL_PX : right * _CELL_PX]
        heat[window] = np.maximum(heat[window], _run(detector, seen[window]))
    return heat


def _run(detector: Any, rgb: Image) -> Heat:
    """The network on a window."""
    bgr = rgb[..., ::-1].transpose(2, 0, 1)[None]  # [1, 3, h, w]
    heat = detector.infer(np.ascontiguousarray(bgr, np.float32) / 127.5 - 1)[0]  # [1, 1, h, w]
    return np.asarray(heat[0, 0], np.float32)


def _outlines(detector: Any, heat: Heat, width: int, height: int) -> tuple[list[Polygon], list[float]]:
    """What is hot, in the pixels of the image."""
    detector.postprocess_op.box_thresh = _MIN_SCORE
    found, scores = detector.postprocess_op(heat[None, None], (height, width))
    boxes = [detector.clip_det_res(detector.order_points_clockwise(box), height, width) for box in found]
    kept = [
        (np.asarray(box, np.float32), float(score))
        for box, score in zip(boxes, scores, strict=True)
        if min(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[0] - box[3])) > 3
    ]
    return [box for box, _ in kept], [score for _, score in kept]
