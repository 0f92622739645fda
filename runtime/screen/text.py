"""Burned-in text: where it stands in a picture, and whether it can be read (rapidocr, its models are in its wheel)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Polygon = NDArray[np.float32]  # [4, 2] x, y

# By how much a small picture is enlarged at most, for the detector. On a frame of 340x256 pixels more finds the same
# places in three times the time.
_LARGEST_SCALE = 1.8


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


def read_text(image: Image, min_confidence: float = 0.8, min_characters: int = 3) -> TextFinding:
    """Read a picture with the whole reader: detection, then recognition. Unsure and short texts don't count."""
    lines, _ = _reader_for(image, 736, 0.5)(np.ascontiguousarray(image[..., ::-1]))
    sure = [
        text.strip()
        for _, text, confidence in lines or []
        if float(confidence) >= min_confidence and len(text.strip()) >= min_characters
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
