"""Too dark, washed out, blurred: measured inside the field of view only."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import QualityConfig
from panendofm.imaging.frame_filters.shrink import shrink

# Sharpness depends on the image's size, so it is measured at one; a smaller image at its own.
_MEASURED_PX = 256
# The share of pixels, at the steepest edges, by which sharpness is judged; smooth mucosa around them says nothing.
_EDGES = 0.03
# By how much edges are blurred to see what that takes from them. What is blurred already loses little.
_BLUR_PX = 3.0
# Slopes (gray values a pixel) of noise and of compression, which no blurring leaves over.
_NOISE = 0.3


@dataclass(frozen=True)
class Quality:
    """What was measured of one frame."""

    brightness: float
    washed_out: float
    sharpness: float


def measure(rgb: NDArray[np.uint8], inside: NDArray[np.uint8]) -> Quality:
    """Measure the pixels of rgb [H, W, 3] where inside [H, W] is not 0."""
    scale = min(1.0, _MEASURED_PX / max(inside.shape))  # enlarged, a small image would look blurred
    size = (max(8, round(inside.shape[1] * scale)), max(8, round(inside.shape[0] * scale)))
    gray = shrink(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), size)
    mask = cv2.resize(inside, size, interpolation=cv2.INTER_NEAREST)
    # Away from the edge, where the image ends and all is sharp.
    core = cv2.erode(mask, np.ones((9, 9), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
    if not core.any():
        return Quality(0.0, 0.0, 0.0)
    inner = gray[core]
    brightness = float(inner.mean())
    return Quality(
        brightness=round(brightness, 3),
        washed_out=round(float((inner >= 235).mean()), 5),
        sharpness=round(_sharpness(gray.astype(np.float32), core), 4),
    )


def _sharpness(gray: NDArray[np.float32], core: NDArray[np.bool_]) -> float:
    """How often steeper the steepest edges are than after more blur. Brightness and contrast drop out of the ratio."""
    own = _slopes(gray)[core]  # [pixels inside]
    blurred = _slopes(cv2.GaussianBlur(gray, (0, 0), _BLUR_PX))[core]
    edges = own >= np.quantile(own, 1 - _EDGES)
    return float(own[edges].mean() / (blurred[edges].mean() + _NOISE))


def _slopes(gray: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gray values a pixel, at every pixel."""
    return np.asarray(cv2.magnitude(*(cv2.Sobel(gray, cv2.CV_32F, dx, 1 - dx, scale=1 / 8) for dx in (1, 0))))


def reasons_of(quality: Quality, config: QualityConfig) -> list[str]:
    """All that is wrong with the frame, the worst first."""
    return [
        reason
        for reason, wrong in (
            ("too_dark", quality.brightness < config.min_brightness),
            ("washed_out", quality.washed_out >= config.washed_out_share and config.washed_out_share < 1),
            ("blurred", quality.sharpness < config.min_sharpness),
        )
        if wrong
    ]


def drop_reason(quality: Quality, config: QualityConfig) -> str | None:
    """Why the frame is dropped, or None."""
    return next(iter(reasons_of(quality, config)), None)
