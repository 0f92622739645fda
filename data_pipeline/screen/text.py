"""Burned-in text: what is done about it.

Cropping removes the text beside the field of view; many processors also write over the picture itself. A text detector
finds those places: in each single picture, and in a few frames of every video, where text keeps its place. They are
filled from their surroundings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from runtime.config import option
from runtime.screen.text import Image, Polygon


@dataclass
class TextConfig:
    """What is done about text inside the field of view."""

    inside: Literal["fill", "keep"] = option("fill: paint over text inside the field of view; keep: leave it.", "fill")
    probe_frames: int = option("Frames of a video or sequence in which places of text are looked for.", 3, low=1)
    detector_px: int = option(
        "Shorter side of the picture for the detector; smaller is faster and misses more.", 736, low=32
    )
    reader: Literal["audit", "filter", "none"] = option(
        "audit: read a sample of the finished frames and report; filter: read all, drop those with text; none.",
        "audit",
    )
    audit_frames_per_source: int = option("Finished frames that the audit reads of every video or sequence.", 1, low=0)
    audit_image_share: float = option("Share of single pictures that the audit reads.", 0.05, low=0, high=1)
    min_confidence: float = option("How sure the reader must be for text to count.", 0.8, low=0, high=1)
    min_characters: int = option("How long text must be to count.", 3, low=1)


def fill_mask(places: list[Polygon], size: tuple[int, int]) -> NDArray[np.uint8] | None:
    """[H, W], 255 on the places and a little around them; None without places. `size` is width, height."""
    if not places:
        return None
    mask = np.zeros((size[1], size[0]), np.uint8)
    for place in places:
        cv2.fillPoly(mask, [np.round(place).astype(np.int32)], 255)
    side = max(3, round(0.008 * max(size)))
    return np.asarray(cv2.dilate(mask, np.ones((side, side), np.uint8)), np.uint8)


def fill(image: Image, mask: NDArray[np.uint8]) -> Image:
    """Paint over the masked pixels from what surrounds them."""
    return np.asarray(cv2.inpaint(image, mask, 3, cv2.INPAINT_TELEA), np.uint8)
