"""One box for one lesion: what a reply says, how well it fits, and in which coordinates it was meant.

Boxes here are corners [x1, y1, x2, y2] in pixels, right and bottom excluded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scoring.boxes import box_iou

Floats = NDArray[np.float64]


def corner_iou(a: ArrayLike, b: ArrayLike) -> Floats:
    """Overlap of boxes [A, 4] and [B, 4] as [A, B]; an empty box overlaps nothing."""
    first, second = (np.asarray(boxes, np.float64).reshape(-1, 4) for boxes in (a, b))
    first, second = (np.concatenate([x[:, :2], np.maximum(x[:, 2:] - x[:, :2], 0)], axis=1) for x in (first, second))
    return box_iou(first, second)


CONVENTIONS = ("pixel", "unit", "permille", "permille_yx")
