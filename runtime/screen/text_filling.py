"""Burned-in text: what is done about it.

Cropping removes the text beside the field of view; many processors also write over the picture itself. A text detector
finds those places: in each single picture, and in a few frames of every video, where text keeps its place. They are
filled from their surroundings. The detector also takes openings, folds and highlights for text, so that a place must
be as low as a line of text and be read, or stand at the same place in several frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from runtime.config import option
from runtime.screen.text import Image, Place, is_beside, overlap

Mask = NDArray[np.uint8]  # [H, W], 0 or 255


@dataclass
class TextConfig:
    """What is done about text inside the field of view."""

    inside: Literal["fill", "keep"] = option("fill: paint over text inside the field of view; keep: leave it.", "fill")
    probe_frames: int = option(
        "Frames of a video or sequence in which places of text are looked for, beside the median of five.", 2, low=1
    )
    detector_px: int = option(
        "Shorter side of the picture for the detector; smaller is faster and misses more.", 736, low=32
    )
    max_height: float = option(
        "How high text may be, as a share of the picture's height; what is higher is taken for anatomy.",
        0.06,
        above=0,
        high=1,
    )
    reader: Literal["audit", "filter", "none"] = option(
        "audit: read a sample of the finished frames and report; filter: read all, drop those with text; none.",
        "audit",
    )
    audit_frames_per_source: int = option("Finished frames that the audit reads of every video or sequence.", 3, low=0)
    audit_image_share: float = option("Share of single pictures that the audit reads.", 0.05, low=0, high=1)
    min_confidence: float = option("How sure the reader must be for text to count.", 0.8, low=0, high=1)
    min_characters: int = option("How long text must be to count.", 3, low=1)


def lines_of_text(
    places: Sequence[Place], others: Sequence[Sequence[Place]], picture_height: int, max_height: float
) -> list[Place]:
    """Of the places in one frame those that are text; `others` are the places in other frames of the source.

    On 887 real pictures the recogniser read letters or digits on 1,793 of 2,194 places: of those that are no text, on
    two with a confidence of 0.5, where it reads real text with 0.97 (median).
    """
    limit = max_height * picture_height
    lines = [place for place in places if _is_read(place, limit) or _stays(place, others, limit)]
    # What is cut off by the picture's edge or crossed by a highlight can't be read, but stands beside what can.
    return lines + [
        place
        for place in places
        if not any(place is line for line in lines)
        and place.height <= limit
        and any(is_beside(place, line) for line in lines)
    ]


def _is_read(place: Place, limit: float) -> bool:
    if place.height <= limit:
        return place.confidence >= (0.5 if place.characters >= 2 else 0.7) and place.characters >= 1
    # A highlight beside a line may make its place higher than the line.
    return (
        place.height <= 2 * limit
        and place.confidence >= (0.6 if place.characters >= 3 else 0.7)
        and place.characters >= 2
    )


def _stays(place: Place, others: Sequence[Sequence[Place]], limit: float) -> bool:
    """Whether it is read, if badly, and stands at the same place in another frame, where anatomy would have moved."""
    badly = place.height <= limit and place.characters >= 1 and place.confidence >= 0.3
    return badly and any(overlap(place, other) >= 0.5 for frame in others for other in frame if other.height <= limit)


def move(lines: Sequence[Place], others: Sequence[Sequence[Place]]) -> bool:
    """Whether some of the lines in one frame are read with ease but stand where no other frame has anything."""
    sure = [line for line in lines if line.characters >= 3 and line.confidence >= 0.8]
    return bool(others) and any(all(overlap(line, other) < 0.1 for frame in others for other in frame) for line in sure)


def fill_mask(places: Sequence[Place], size: tuple[int, int]) -> Mask | None:
    """[H, W], 255 on the places and a little around them; None without places. `size` is width, height."""
    if not places:
        return None
    mask = np.zeros((size[1], size[0]), np.uint8)
    for place in places:
        cv2.fillPoly(mask, [np.round(place.outline).astype(np.int32)], 255)
    side = max(3, round(0.008 * max(size)))
    return np.asarray(cv2.dilate(mask, np.ones((side, side), np.uint8)), np.uint8)


def fill(image: Image, mask: Mask) -> Image:
    """Paint over the masked pixels from what surrounds them."""
    return np.asarray(cv2.inpaint(image, mask, 3, cv2.INPAINT_TELEA), np.uint8)
