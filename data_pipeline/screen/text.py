"""Burned-in text: found, painted over, and audited.

Cropping removes the text beside the field of view; many processors also write over the picture itself. A text detector
(rapidocr, its models come with its wheel) finds those places: in each single picture, and in a few frames of every
video, where text keeps its place. They are filled from their surroundings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from runtime.config import option

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Polygon = NDArray[np.float32]  # [4, 2] x, y

# By how much a small picture is enlarged at most, for the detector. On a frame of 340x256 pixels more finds the same
# places in three times the time.
_LARGEST_SCALE = 1.8


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


@dataclass(frozen=True)
class TextFinding:
    """What the reader saw in one picture."""

    found: bool
    private: bool  # a date, a time, or the label of a patient field


_PRIVATE = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[:.]\d{2}[:.]?\d{0,2}|\d{1,2}[/. -]?[A-Za-z]{3}[/. -]?\d{2,4}"
    r"|\b(name|patient|age|sex|d\.?o\.?b|born|birth|physician|doctor|dr|id)\b",
    re.IGNORECASE,
)


def find_text(image: Image, detector_px: int) -> list[Polygon]:
    """Quadrilaterals around everything that looks like text."""
    boxes, _ = _reader_for(image, detector_px, 0.3).text_det(np.ascontiguousarray(image[..., ::-1]))
    return [] if boxes is None else [np.asarray(box, np.float32) for box in boxes]


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


def read_text(image: Image, config: TextConfig) -> TextFinding:
    """Read a picture with the whole reader: detection, then recognition."""
    lines, _ = _reader_for(image, 736, 0.5)(np.ascontiguousarray(image[..., ::-1]))
    sure = [
        text.strip()
        for _, text, confidence in lines or []
        if float(confidence) >= config.min_confidence and len(text.strip()) >= config.min_characters
    ]
    return TextFinding(bool(sure), any(_PRIVATE.search(text) for text in sure))


def _reader_for(image: Image, detector_px: int, box_threshold: float) -> Any:
    """The reader, set so that its detector sees the picture's shorter side at `detector_px` or more."""
    reader = _load_reader()
    reader.text_det.limit_side_len = min(detector_px, round(_LARGEST_SCALE * min(image.shape[:2])))
    reader.text_det.postprocess_op.box_thresh = box_threshold
    return reader


@cache
def _load_reader() -> Any:
    """One per process, with one thread, as the work is spread over processes."""
    from rapidocr_onnxruntime import RapidOCR

    return RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)
