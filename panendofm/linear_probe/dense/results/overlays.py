"""Images with outlines drawn in: the truth green, what was found red."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # [H, W, 3], RGB
TRUE, TOLD = (60, 220, 80), (255, 60, 60)


def outlined(pixels: Pixels, masks: NDArray[np.bool_], color: tuple[int, int, int], thickness: int = 0) -> Pixels:
    """A copy with the outlines of masks [K, H, W]."""
    drawn = pixels.copy()
    width = thickness or max(1, round(max(pixels.shape[:2]) / 200))
    for mask in masks:
        contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(drawn, contours, -1, color, width)
    return drawn
