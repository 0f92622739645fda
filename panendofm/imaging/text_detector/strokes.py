"""Where in an image text may stand: thin strokes, many of them side by side.

Letters have edges on both sides of narrow strokes; folds, vessels and openings are wider or far apart. Asking for that
takes a millisecond or two, and spares the text detector, which takes a hundred times as long, most of an image.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.uint8]  # [H, W], not 0 where it holds
Gray = NDArray[np.uint8]  # [H, W]

# A stroke is narrower than this and differs so much from what is beside it.
_STROKE_PX, _CONTRAST = 5, 14
# A piece of a line, along it or upwards: its length and height.
_LINE_PX = (24, 10)
# Near strokes that are crowded enough, those count that are nearly so: letters such as 1 have few edges.
_NEARLY, _NEAR_PX = 0.6, 31


def strokes_like_letters(gray: Gray, edges_per_pixel: float) -> Mask:
    """[H, W], 1 where strokes stand as close as in letters of 6 to 20 pixels."""
    edges = _edges_of_strokes(gray)
    sure = _crowded(edges, edges_per_pixel)
    if not sure.any():
        return sure
    near = cv2.dilate(sure, np.ones((_NEAR_PX, _NEAR_PX), np.uint8))
    return np.asarray(_crowded(edges, _NEARLY * edges_per_pixel) & near, np.uint8)


def _edges_of_strokes(gray: Gray) -> list[Mask]:
    """Of bright and of dark strokes, [H, W] each."""
    square = np.ones((_STROKE_PX, _STROKE_PX), np.uint8)
    shapes = (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT)
    return [_edges((cv2.morphologyEx(gray, shape, square) > _CONTRAST).astype(np.uint8)) for shape in shapes]


def _crowded(kinds: list[Mask], edges_per_pixel: float) -> Mask:
    """[H, W], 1 where a piece of a line has more edges of one kind."""
    found = np.zeros(kinds[0].shape, np.uint8)
    for edges in kinds:
        for piece in (_LINE_PX, _LINE_PX[::-1]):
            # Sums of bytes are exact in 32 bits, wherever they are counted.
            counts = cv2.boxFilter(edges, cv2.CV_32S, piece, normalize=False)
            found |= (counts > edges_per_pixel * piece[0] * piece[1]).astype(np.uint8)
    return found


def _edges(strokes: Mask) -> Mask:
    """[H, W]: at how many of its left and upper sides (0 to 2) a stroke ends or begins."""
    edges = np.zeros(strokes.shape, np.uint8)
    edges[:, 1:] += strokes[:, 1:] ^ strokes[:, :-1]
    edges[1:] += strokes[1:] ^ strokes[:-1]
    return edges
