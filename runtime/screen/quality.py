"""Too dark, washed out, blurred: measured inside the field of view only."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from runtime.config import option
from runtime.screen.shrink import shrink

# Sharpness depends on the picture's size, so it is measured at one.
_MEASURED_PX = 256


@dataclass
class QualityConfig:
    """Which frames are useless. A threshold of 0 (1 for washed_out_share) switches its screen off."""

    min_brightness: float = option("Mean brightness (0-255) below which a frame is too dark.", 30.0, low=0, high=255)
    washed_out_share: float = option(
        "Share of overexposed pixels from which a frame is washed out.", 0.75, low=0, high=1
    )
    min_sharpness: float = option("Sharpness below which a frame is blurred.", 0.6, low=0)


@dataclass(frozen=True)
class Quality:
    """What was measured of one frame."""

    brightness: float
    washed_out: float
    sharpness: float


def measure(rgb: NDArray[np.uint8], inside: NDArray[np.uint8]) -> Quality:
    """Measure the pixels of rgb [H, W, 3] where inside [H, W] is not 0."""
    scale = _MEASURED_PX / max(inside.shape)
    size = (max(8, round(inside.shape[1] * scale)), max(8, round(inside.shape[0] * scale)))
    grey = shrink(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), size)
    mask = cv2.resize(inside, size, interpolation=cv2.INTER_NEAREST)
    # Away from the edge, where the picture ends and all is sharp.
    core = cv2.erode(mask, np.ones((9, 9), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
    if not core.any():
        return Quality(0.0, 0.0, 0.0)
    inner = grey[core]
    brightness = float(inner.mean())
    # The mean size of fine detail, relative to the brightness: a dim picture is not blurred for being dim.
    detail = np.abs(grey.astype(np.float32) - cv2.GaussianBlur(grey.astype(np.float32), (0, 0), 1.5))[core]
    return Quality(
        brightness=round(brightness, 3),
        washed_out=round(float((inner >= 235).mean()), 5),
        sharpness=round(100 * float(detail.mean()) / max(brightness, 20.0), 4),
    )


def drop_reason(quality: Quality, config: QualityConfig) -> str | None:
    """Why the frame is dropped, or None."""
    if quality.brightness < config.min_brightness:
        return "too_dark"
    if quality.washed_out >= config.washed_out_share and config.washed_out_share < 1:
        return "washed_out"
    if quality.sharpness < config.min_sharpness:
        return "blurred"
    return None
