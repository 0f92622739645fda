"""Burned-in text: where it stands in an image, and whether it can be read (rapidocr, its models are in its wheel)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.text_detector import Polygon, detect_text

Image = NDArray[np.uint8]  # [H, W, 3] RGB

_READ_AT_ONCE = 4
# The recognizer gives punctuation, or single Chinese characters, for highlights, folds and openings.
_CHARACTER = re.compile(r"[A-Za-z0-9\u00c0-\u024f\u0370-\u052f]")
_CHINESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Place:
    """Something that looks like text: its outline, how sure the detector is, and what it reads."""

    outline: Polygon
    score: float
    text: str
    confidence: float

    @property
    def height(self) -> float:
        """Of the letters' line, in pixels, however it is turned."""
        sides = np.linalg.norm(self.outline - np.roll(self.outline, -1, axis=0), axis=1)
        return float(min(sides[0], sides[1]))

    @property
    def characters(self) -> int:
        """Letters and digits that it reads."""
        return count_characters(self.text)


def overlap(one: Place, other: Place) -> float:
    """Intersection over union of two places."""
    common, _ = cv2.intersectConvexConvex(one.outline, other.outline)
    union = cv2.contourArea(one.outline) + cv2.contourArea(other.outline) - common
    return float(common / union) if union > 0 else 0.0


def count_characters(text: str) -> int:
    """Letters and digits; Chinese, Japanese and Korean ones only where several stand together."""
    chinese = len(_CHINESE.findall(text))
    return len(_CHARACTER.findall(text)) + (chinese if chinese >= 3 else 0)


@dataclass(frozen=True)
class TextFinding:
    """What the reader saw in one image."""

    found: bool
    private: bool  # a date, a time, or the label of a patient field


_PRIVATE = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[:.]\d{2}[:.]?\d{0,2}|\d{1,2}[/. -]?[A-Za-z]{3}[/. -]?\d{2,4}"
    r"|\b(name|patient|age|sex|d\.?o\.?b|born|birth|physician|doctor|dr|id)\b",
    re.IGNORECASE,
)


def find_text(image: Image, detector_px: int, highest_px: float = inf) -> list[Place]:
    """Everything that looks like text, with what it reads.

    Reading a block of text takes as long as finding it. So what stands beside a line that is read with ease is not
    read, nor what is higher than `highest_px`.
    """
    reader = _load_reader()
    boxes, scores = detect_text(reader.text_det, image, detector_px)
    places = sorted((Place(box, score, "", 0.0) for box, score in zip(boxes, scores, strict=True)), key=_by_score)
    done = [place for place in places if place.height > highest_px]
    found = [place for place in places if place.height <= highest_px]
    bgr = np.ascontiguousarray(image[..., ::-1])
    while found:
        group, found = found[:_READ_AT_ONCE], found[_READ_AT_ONCE:]
        readings, _ = reader.text_rec([_upright(reader, bgr, place) for place in group])
        read = [replace(p, text=r[0].strip(), confidence=float(r[1])) for p, r in zip(group, readings, strict=True)]
        sure = [place for place in read if place.confidence >= 0.7 and place.characters >= 2]
        beside = [place for place in found if any(is_beside(place, line) for line in sure)]
        found = [place for place in found if not any(place is other for other in beside)]
        done += read + beside
    return done


def _upright(reader: Any, bgr: Image, place: Place) -> Image:
    """The place cut out of a BGR image. What runs upwards or downwards is laid flat, and may then be upside down."""
    (crop,) = reader.get_crop_img_list(bgr, [place.outline])
    across, along = (np.linalg.norm(place.outline[0] - place.outline[i]) for i in (1, 3))
    if along >= 1.5 * across:
        (crop,), _, _ = reader.text_cls([crop])
    return np.asarray(crop, np.uint8)


def _by_score(place: Place) -> float:
    return -place.score


def is_beside(place: Place, line: Place) -> bool:
    """Whether a place not much higher than a line of text is less than two lines away from it."""
    low, high = place.outline.min(axis=0), place.outline.max(axis=0)
    apart = np.maximum(low - line.outline.max(axis=0), line.outline.min(axis=0) - high)
    return place.height <= 1.5 * line.height and bool((apart <= 2 * line.height).all())


def read_text(
    image: Image, min_confidence: float = 0.8, min_characters: int = 3, detector_px: int = 736
) -> TextFinding:
    """Read an image: detection, then recognition, also upside down. Unsure and short texts don't count."""
    reader = _load_reader()
    boxes, _ = detect_text(reader.text_det, image, detector_px)
    if not boxes:
        return TextFinding(False, False)
    bgr = np.ascontiguousarray(image[..., ::-1])
    upright, _, _ = reader.text_cls(reader.get_crop_img_list(bgr, boxes))
    readings, _ = reader.text_rec(upright)
    sure = [
        reading[0].strip()
        for reading in readings
        if float(reading[1]) >= min_confidence and count_characters(reading[0]) >= min_characters
    ]
    return TextFinding(bool(sure), any(_PRIVATE.search(text) for text in sure))


@cache
def _load_reader() -> Any:
    """One per process, with one thread, as the work is spread over processes."""
    from rapidocr_onnxruntime import RapidOCR

    reader = RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)
    # Short lines are not padded to the width of long ones: most have a few letters.
    reader.text_rec.rec_image_shape = [3, 48, 96]
    return reader
