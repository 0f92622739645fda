"""The three colors of a pixel taken together."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def highest_channel(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[H, W] of [H, W, 3]. NumPy's maximum over so short an axis takes twenty times as long."""
    return np.asarray(cv2.max(cv2.max(image[..., 0], image[..., 1]), image[..., 2]), np.uint8)
