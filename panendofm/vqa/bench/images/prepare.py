"""An image as it is sent: cropped to its field of view and scaled, with boxes and outlines that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.field_of_view import FieldOfView, detect_field_of_view
from panendofm.imaging.frame_filters.quality import drop_reason, measure
from panendofm.imaging.images import UnreadableImageError, open_image
from panendofm.vqa.bench.config import ImageConfig

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Box = tuple[int, int, int, int]
# A region that the crop cuts more of than this is not the region any more.
_MIN_LEFT = 0.5


@dataclass(frozen=True, eq=False)
class Prepared:
    """Where the sent image lies in its original, and its field of view (None: all of it).

    Many of these are kept at once, so that masks are made when they are needed.
    """

    crop: Box
    size: tuple[int, int]  # width, height as sent
    outline: FieldOfView | None = None  # in pixels of the sent image

    @property
    def view(self) -> NDArray[np.uint8]:
        """[h, w], 255 inside the field of view."""
        if self.outline is None:
            return np.full((self.size[1], self.size[0]), 255, np.uint8)
        return self.outline.mask()

    def inside_share(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Share of each box [N, 4] inside the field of view."""
        x1, y1, x2, y2 = np.clip(boxes, 0, [self.size[0], self.size[1]] * 2).T
        sums = _sums(self)
        lit = sums[y2, x2] - sums[y1, x2] - sums[y2, x1] + sums[y1, x1]
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        return np.asarray(lit / np.maximum(area, 1), np.float64)

    def box(self, box: Sequence[float]) -> Box | None:
        return box_as_sent(box, self.crop, self.size)

    def polygon(self, points: Sequence[tuple[float, float]]) -> tuple[tuple[int, int], ...]:
        factors = self.size[0] / (self.crop[2] - self.crop[0]), self.size[1] / (self.crop[3] - self.crop[1])
        return tuple(
            (
                min(max(round((x - self.crop[0]) * factors[0]), 0), self.size[0] - 1),
                min(max(round((y - self.crop[1]) * factors[1]), 0), self.size[1] - 1),
            )
            for x, y in points
        )

    def render(self, image: Image) -> Image:
        """The image as it is sent; black outside the field of view, where dates and names may stand."""
        x1, y1, x2, y2 = self.crop
        part = image[y1:y2, x1:x2]
        if (x2 - x1, y2 - y1) != self.size:
            part = np.asarray(cv2.resize(part, self.size, interpolation=cv2.INTER_AREA), np.uint8)
        return np.where(self.view[..., None] > 0, part, np.uint8(0))


@lru_cache(maxsize=8)
def _sums(prepared: Prepared) -> NDArray[np.int64]:
    """Pixels inside the field of view above and left of each corner [h + 1, w + 1]; asked often for one image."""
    return np.asarray(cv2.integral((prepared.view > 0).astype(np.uint8)), np.int64)


def box_as_sent(box: Sequence[float], crop: Box, size: tuple[int, int]) -> Box | None:
    """A box of the original in pixels of the sent image; None when the crop leaves less than half of it."""
    x1, y1, x2, y2 = (float(v) for v in box)
    left, top = max(x1, crop[0]), max(y1, crop[1])
    right, bottom = min(x2, crop[2]), min(y2, crop[3])
    if right <= left or bottom <= top or (right - left) * (bottom - top) < _MIN_LEFT * (x2 - x1) * (y2 - y1):
        return None
    fx, fy = size[0] / (crop[2] - crop[0]), size[1] / (crop[3] - crop[1])
    corners = (
        floor((left - crop[0]) * fx),
        floor((top - crop[1]) * fy),
        ceil((right - crop[0]) * fx),
        ceil((bottom - crop[1]) * fy),
    )
    return (max(corners[0], 0), max(corners[1], 0), min(corners[2], size[0]), min(corners[3], size[1]))


def prepare(path: Path, config: ImageConfig) -> Prepared | str:
    """How the image would be sent, or the reason why it is left out."""
    try:
        image = np.asarray(open_image(path))  # [H, W, 3]
    except UnreadableImageError:
        return "image can't be read"
    height, width = image.shape[:2]
    if min(height, width) < config.min_short_side_px:
        return "image is too small"
    crop, outline = (0, 0, width, height), None
    if config.crop:
        outline = detect_field_of_view([image], config.field_of_view)
        if outline is None:
            return "no field of view"
        crop = outline.box
    scale = min(1.0, config.longest_side_px / max(crop[2] - crop[0], crop[3] - crop[1]))
    size = (max(1, round((crop[2] - crop[0]) * scale)), max(1, round((crop[3] - crop[1]) * scale)))
    prepared = Prepared(crop, size, None if outline is None else outline.cropped_to(size))
    reason = drop_reason(measure(prepared.render(image), prepared.view), config.quality)
    return prepared if reason is None else f"image is {reason.replace('_', ' ')}"
