"""The layout of a source's frames, found once and used for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import FieldOfViewConfig, TextConfig
from panendofm.imaging.frame_filters.field_of_view import FieldOfView, detect_field_of_view
from panendofm.imaging.frame_filters.position_box import Box, position_box
from panendofm.imaging.frame_filters.shrink import shrink
from panendofm.imaging.frame_filters.text_filling import fill, fill_mask, lines_of_text, move, places_of_text

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Mask = NDArray[np.uint8]  # [H, W], 0 or 255


@dataclass
class Layout:
    """Where the image is inside a frame of one size, and what must not be seen of it."""

    view: FieldOfView
    out_size: tuple[int, int]  # width, height of the finished image
    shown: Mask  # of the finished image: inside the field of view
    visible: Mask  # and not under the position box: what may be measured
    text: Mask | None = None  # and painted over in every frame
    text_is_known: bool = False  # whether text was looked for
    text_moves: bool = False  # so that it must be looked for in every frame

    def crop(self, frame: Image) -> Image:
        """The frame cropped to its field of view and made smaller; nothing is blanked yet."""
        left, top, right, bottom = self.view.box
        cropped = frame[top:bottom, left:right]
        return shrink(cropped, self.out_size)

    def blank(self, cropped: Image) -> Image:
        """Black outside the field of view (and on the position box, when it is masked)."""
        return np.asarray(cv2.bitwise_and(cropped, cropped, mask=self.shown), np.uint8)

    def whole_at_output_scale(self, frame: Image) -> Image:
        """The frame as it came, in the finished image's scale: what would be seen without any screening."""
        left, _, right, _ = self.view.box
        scale = self.out_size[0] / (right - left)
        return shrink(frame, (round(frame.shape[1] * scale), round(frame.shape[0] * scale)))

    def without_text(self, blanked: Image, config: TextConfig) -> tuple[Image, float]:
        """The finished image, and how much of it was painted over."""
        mask = self.text
        if self.text_moves:
            lines = lines_of_text(places_of_text(blanked, config), [], self.out_size[1], config.max_height)
            own = fill_mask(lines, self.out_size)
            mask = mask if own is None else own if mask is None else cv2.bitwise_or(mask, own)
        if mask is None:
            return blanked, 0.0
        return self.blank(fill(blanked, mask)), float((mask > 0).mean())


def find_layout(
    frames: Sequence[Image], config: FieldOfViewConfig, longest_side_px: int, mask_position_box: bool
) -> Layout | None:
    """The layout that frames of one size share; None when they show no image."""
    view = detect_field_of_view(frames, config)
    if view is None:
        return None
    left, top, right, bottom = view.box
    if right - left < 16 or bottom - top < 16:
        return None
    scale = min(1.0, longest_side_px / max(right - left, bottom - top))
    out_size = (max(1, round((right - left) * scale)), max(1, round((bottom - top) * scale)))
    shown = view.cropped_to(out_size).mask()
    visible = shown.copy()
    box = _common_box(frames)
    if box is not None:
        _clear(visible, box, view.box)
        if mask_position_box:
            shown = visible
    if not visible.any():
        return None
    return Layout(view, out_size, shown, visible)


def _clear(mask: Mask, box: Box, crop: Box) -> None:
    """Set the mask of a cropped and shrunk image to 0 on a box of the whole frame, and on pixels that it touches."""
    height, width = mask.shape
    x, y = width / (crop[2] - crop[0]), height / (crop[3] - crop[1])
    left, right = max(0, int((box[0] - crop[0]) * x)), max(0, ceil((box[2] - crop[0]) * x))
    top, bottom = max(0, int((box[1] - crop[1]) * y)), max(0, ceil((box[3] - crop[1]) * y))
    mask[top:bottom, left:right] = 0


def find_text_places(layout: Layout, frames: Sequence[Image], config: TextConfig) -> None:
    """Look for text in the finished form of `frames` and note its places in the layout, and whether it moves.

    A few of the frames are looked at, and the median of five: in it what moves is blurred and what stays is clear.
    """
    finished = [layout.blank(layout.crop(frame)) for frame in frames]
    count = min(config.probe_frames, len(finished))
    seen = [finished[i * len(finished) // count] for i in range(count)]
    if len(finished) >= 5:
        seen.append(_median([finished[i * len(finished) // 5] for i in range(5)]))
    places = [places_of_text(image, config) for image in seen]
    lines = []
    for number, found in enumerate(places):
        others = places[:number] + places[number + 1 :]
        own = lines_of_text(found, others, layout.out_size[1], config.max_height)
        layout.text_moves |= move(own, others)
        lines += own
    layout.text, layout.text_is_known = fill_mask(lines, layout.out_size), True


def _median(five: Sequence[Image]) -> Image:
    """Of five images, pixel by pixel; a network of comparisons takes a hundredth of the time of a sort."""
    a, b, c, d, e = five
    low = cv2.max(cv2.min(a, b), cv2.min(c, d))
    high = cv2.min(cv2.max(a, b), cv2.max(c, d))
    return np.asarray(cv2.max(cv2.min(low, high), cv2.min(cv2.max(low, high), e)), np.uint8)


def _common_box(frames: Sequence[Image]) -> Box | None:
    """The position box that at least a third of the frames show."""
    boxes = [box for box in map(position_box, frames) if box is not None]
    if not boxes or 3 * len(boxes) < len(frames):
        return None
    left, top = (int(v) for v in np.array(boxes)[:, :2].min(axis=0))
    right, bottom = (int(v) for v in np.array(boxes)[:, 2:].max(axis=0))
    return left, top, right, bottom
