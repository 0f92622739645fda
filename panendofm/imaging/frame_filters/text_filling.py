"""Burned-in text: what is done about it.

Cropping removes the text beside the field of view; many processors also write over the image itself. A text detector
finds those places: in each single image, and in a few frames of every video, where text keeps its place. They are
filled from their surroundings. The detector also takes openings, folds and highlights for text, so that a place must
be as low as a line of text and be read, or stand at the same place in several frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import TextConfig
from panendofm.imaging.frame_filters.text import Image, Place, find_text, is_beside, overlap

Mask = NDArray[np.uint8]  # [H, W], 0 or 255

# A highlight beside a line may make its place so much higher than the line.
_HIGHEST = 2


def places_of_text(image: Image, config: TextConfig) -> list[Place]:
    """What looks like text in a finished image. What is too high to count as a line is not read."""
    return find_text(image, config.detector_px, _HIGHEST * config.max_height * image.shape[0])


def lines_of_text(
    places: Sequence[Place], others: Sequence[Sequence[Place]], image_height: int, max_height: float
) -> list[Place]:
    """Of the places in one frame those that are text; `others` are the places in other frames of the source.

    On 887 real images the recognizer read letters or digits on 1,793 of 2,194 places: of those that are no text, on
    two with a confidence of 0.5, where it reads real text with 0.97 (median).
    """
    limit = max_height * image_height
    lines = [place for place in places if _is_read(place, limit) or _stays(place, others, limit)]
    # What is cut off by the image's edge or crossed by a highlight can't be read, but stands beside what can.
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
    return (
        place.height <= _HIGHEST * limit
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
