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


def thumbnail(pixels: Pixels, side: int = 320) -> bytes:
    """JPEG, no side longer than `side`."""
    scale = min(1.0, side / max(pixels.shape[:2]))
    size = (max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA) if scale < 1 else pixels
    _, content = cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])
    return content.tobytes()
