"""The quality of one labeled image: the data pipeline's measures, and a verdict with its reasons."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import TextConfig, VerdictConfig
from panendofm.imaging.frame_filters.endoscopy import is_endoscopy, measure_colors
from panendofm.imaging.frame_filters.layout import Layout, find_text_places
from panendofm.imaging.frame_filters.quality import measure, reasons_of

# Gray values between which mucosa can be judged: darker is lumen, brighter is glare.
_DARK, _GLARE = 40, 235
# Dark areas are as flat as printed ones: with less than this share lit, the colors of an image tell nothing.
_COLORS_TELL = 0.7
REASONS = ("too_dark", "washed_out", "blurred", "glare", "little_mucosa", "text", "not_endoscopy")


@dataclass(frozen=True)
class ImageQuality:
    """What was measured inside the field of view, and why the image is poor; no reasons: it is good."""

    brightness: float  # mean gray value, 0 to 255
    washed_out: float  # share of overexposed pixels
    sharpness: float  # how often steeper its edges are than after more blur
    mucosa: float  # share of pixels that are neither dark nor overexposed
    reasons: tuple[str, ...] = ()

    @property
    def poor(self) -> bool:
        return bool(self.reasons)


def judge(rgb: NDArray[np.uint8], layout: Layout | None, config: VerdictConfig) -> ImageQuality:
    """The verdict on an image [H, W, 3] whose layout is known; without a layout the whole image counts."""
    if layout is None:
        image = rgb
        visible = np.full(rgb.shape[:2], 255, np.uint8)
    else:
        image = layout.crop(rgb)
        visible = layout.visible
    quality = measure(image, visible)
    inner = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[visible > 0]
    mucosa = float(((inner >= _DARK) & (inner < _GLARE)).mean()) if len(inner) else 0.0
    reasons = reasons_of(quality, config)
    if quality.washed_out >= config.glare_share and "washed_out" not in reasons:
        reasons.append("glare")
    if mucosa < config.min_mucosa:
        reasons.append("little_mucosa")
    if config.text and layout is not None and _has_text(rgb, layout):
        reasons.append("text")
    if mucosa >= _COLORS_TELL and not is_endoscopy(measure_colors(image, visible)):
        reasons.append("not_endoscopy")
    return ImageQuality(quality.brightness, quality.washed_out, quality.sharpness, round(mucosa, 4), tuple(reasons))


def _has_text(rgb: NDArray[np.uint8], layout: Layout) -> bool:
    find_text_places(layout, [rgb], TextConfig())
    return layout.text is not None
