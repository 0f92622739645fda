"""The keys of the frame filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panendofm.runtime.config import option


@dataclass
class FieldOfViewConfig:
    """How the field of view is found."""

    min_area: float = option(
        "Share of the frame that the field of view must cover; less drops the frame.", 0.15, low=0, high=1
    )
    ground_margin: int = option(
        "A pixel this much brighter than the dark ground (0-255) belongs to the image.", 12, low=0, high=255
    )


@dataclass
class QualityConfig:
    """Which frames are useless. A threshold of 0 (1 for washed_out_share) switches its screen off."""

    min_brightness: float = option("Mean brightness (0-255) below which a frame is too dark.", 30.0, low=0, high=255)
    washed_out_share: float = option(
        "Share of overexposed pixels from which a frame is washed out.", 0.75, low=0, high=1
    )
    min_sharpness: float = option(
        "Sharpness below which a frame is blurred: how often steeper its edges are than after more blur.", 1.5, low=0
    )


@dataclass
class VerdictConfig(QualityConfig):
    """Which images of a labeled set are poor. Poor is less than useless, so the thresholds are stricter."""

    min_brightness: float = option("Mean brightness (0-255) below which an image is too dark.", 48.0, low=0, high=255)
    washed_out_share: float = option("Share of overexposed pixels from which an image is washed out.", 0.25, high=1)
    min_sharpness: float = option("Sharpness below which an image is blurred.", 2.1, low=0)
    glare_share: float = option("Share of overexposed pixels from which an image has glare.", 0.09, low=0, high=1)
    min_mucosa: float = option("Share of the field of view that must be lit, neither dark nor glare.", 0.5, high=1)
    text: bool = option("Look for text inside the field of view, too; takes about half a second an image.", False)


@dataclass
class TextConfig:
    """What is done about text inside the field of view."""

    inside: Literal["fill", "keep"] = option("fill: paint over text inside the field of view; keep: leave it.", "fill")
    probe_frames: int = option(
        "Frames of a video or sequence in which places of text are looked for, beside the median of five.", 2, low=1
    )
    detector_px: int = option(
        "Shorter side of the image for the detector; smaller is faster and misses more.", 736, low=32
    )
    max_height: float = option(
        "How high text may be, as a share of the image's height; what is higher is taken for anatomy.",
        0.06,
        above=0,
        high=1,
    )
    reader: Literal["audit", "filter", "none"] = option(
        "audit: read a sample of the finished frames and report; filter: read all, drop those with text; none.",
        "audit",
    )
    audit_frames_per_source: int = option("Finished frames that the audit reads of every video or sequence.", 3, low=0)
    audit_image_share: float = option("Share of single images that the audit reads.", 0.05, low=0, high=1)
    min_confidence: float = option("How sure the reader must be for text to count.", 0.8, low=0, high=1)
    min_characters: int = option("How long text must be to count.", 3, low=1)
