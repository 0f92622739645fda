"""Where the endoscope's image is inside the frame: an octagon, a circle or a rectangle on a dark or plain ground.

Around it, processors write names, dates and settings. Cropping to the field of view and blanking the rest removes
them. A video is looked at in several frames at once (the brightest value that each pixel reaches), so that a dark lumen
at the edge of one frame does not cut the image.

A ground of one bright color (a recorder's screen, a white border) is taken away first, of two views side by side the
first is chosen, and labels that cover a corner are cut out: each has its own file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.background import image_on_background
from panendofm.imaging.frame_filters.channels import highest_channel
from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.corner_labels import covered_corners, plates_in_corners
from panendofm.imaging.frame_filters.position_box import position_box_mask
from panendofm.imaging.frame_filters.shrink import shrink
from panendofm.imaging.frame_filters.two_views import first_of_two_views

Image = NDArray[np.uint8]  # [H, W, 3] RGB

WORKING_PX = 384


@dataclass(frozen=True)
class FieldOfView:
    """A convex outline in the pixels of a frame of `frame_size` (width, height), less the labels in its corners."""

    shape: str
    outline: NDArray[np.float32]  # [N, 2] x, y
    frame_size: tuple[int, int]
    labels: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros((0, 2, 2), np.float32)
    )  # [L, 2, 2] two corners

    def scaled_to(self, width: int, height: int) -> FieldOfView:
        """The same outline for a frame of another size."""
        factor = np.array([width / self.frame_size[0], height / self.frame_size[1]], np.float32)
        return FieldOfView(self.shape, self.outline * factor, (width, height), self.labels * factor)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom (the last two exclusive)."""
        left, top = np.floor(self.outline.min(axis=0) + 0.5).astype(int)
        right, bottom = np.floor(self.outline.max(axis=0) + 0.5).astype(int)
        width, height = self.frame_size
        return max(int(left), 0), max(int(top), 0), min(int(right), width), min(int(bottom), height)

    def cropped_to(self, size: tuple[int, int]) -> FieldOfView:
        """The same outline in an image of `size` that was cut along `box` and scaled."""
        left, top, right, bottom = self.box
        factor = np.array([size[0] / (right - left), size[1] / (bottom - top)], np.float32)
        corner = np.array([left, top], np.float32)
        return FieldOfView(self.shape, (self.outline - corner) * factor, size, (self.labels - corner) * factor)

    def mask(self) -> NDArray[np.uint8]:
        """[H, W], 255 inside."""
        mask = _fill_convex(self.outline, self.frame_size)
        for low, high in self.labels:
            (left, top), (right, bottom) = np.maximum(np.floor(low), 0).astype(int), np.ceil(high).astype(int)
            mask[top : max(bottom, 0), left : max(right, 0)] = 0
        return mask


def _fill_convex(outline: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.uint8]:
    """[H, W], 255 where a pixel's middle lies inside the convex outline. (cv2 would fill its edge too.)"""
    y = np.arange(size[1])[:, None] + 0.5  # [H, 1]
    (x0, y0), (x1, y1) = outline.T, np.roll(outline, -1, axis=0).T  # sides [N]
    crosses = (np.minimum(y0, y1) <= y) & (y < np.maximum(y0, y1))  # [H, N]
    slope = (x1 - x0) / np.where(y1 == y0, 1, y1 - y0)
    x_there = x0 + (y - y0) * slope
    left = np.where(crosses, x_there, np.inf).min(axis=1, keepdims=True)
    right = np.where(crosses, x_there, -np.inf).max(axis=1, keepdims=True)
    x = np.arange(size[0])[None] + 0.5
    return np.asarray(((x > left) & (x < right)) * 255, np.uint8)


def detect_field_of_view(frames: Sequence[Image], config: FieldOfViewConfig) -> FieldOfView | None:
    """The field of view that `frames` (of one size, from one video) share; None when there is no image."""
    height, width = frames[0].shape[:2]
    scale = min(1.0, WORKING_PX / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = [shrink(frame, size) for frame in frames]
    shown = image_on_background(small)
    left, top, w, h = (0, 0, *size) if shown is None else cv2.boundingRect(shown)
    parts = [frame[top : top + h, left : left + w] for frame in small]
    level, position = _brightest(parts)
    if shown is not None:
        level[shown[top : top + h, left : left + w] == 0] = 0
    found = _on_dark_ground(level, position, parts, config)
    if found is None:
        return None
    hull, labels = found
    if cv2.contourArea(hull) < config.min_area * size[0] * size[1]:
        return None
    shape, outline = _named_shape(hull, (w, h))
    corner = np.array([left, top], np.float32)
    return FieldOfView(shape, outline + corner, size, labels + corner).scaled_to(width, height)


def _brightest(frames: Sequence[Image]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The brightest value [H, W] that each pixel reaches beside the position box, and where that box was seen."""
    level, position = np.zeros((2, *frames[0].shape[:2]), np.uint8)
    for frame in frames:
        brightest, box = highest_channel(frame), position_box_mask(frame)
        brightest[box > 0] = 0
        np.maximum(level, brightest, out=level)
        np.maximum(position, box, out=position)
    return level, position


def _on_dark_ground(
    level: NDArray[np.uint8], position: NDArray[np.uint8], frames: Sequence[Image], config: FieldOfViewConfig
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """The image's hull [N, 2] and the labels in its corners [L, 2, 2]; None when there is no image.

    `position` is the position box, which has a mask of its own.
    """
    plates = plates_in_corners(frames, level)
    bright = ((level > _ground_level(level) + config.ground_margin) & (plates == 0)).astype(np.uint8)
    # Letters are thin: opening with a disc that is wider than a line of text takes them away.
    side = max(3, round(max(level.shape) * 0.045)) | 1
    body = cv2.morphologyEx(bright, cv2.MORPH_OPEN, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)))
    body = first_of_two_views(body, frames)
    points = _points_of_large_parts(body)
    if points is None:
        return None
    hull = _without_blurred_edge(cv2.convexHull(points), level)
    if hull is None:
        return None
    labels = covered_corners(body | (position > 0), bright & (1 - body), plates, hull)
    return hull, np.array(labels, np.float32).reshape(-1, 2, 2)


def _without_blurred_edge(hull: NDArray[np.int32], level: NDArray[np.uint8]) -> NDArray[np.float32] | None:
    """The hull [N, 1, 2] less the pixels at its edge over which compression smears the image into the ground.

    Rings of one pixel are taken off while their typical level is under half of that of a ring well inside. Sides along
    the frame's edge stay: the image goes on there.
    """
    inside = _fill_convex(hull.reshape(-1, 2).astype(np.float32), (level.shape[1], level.shape[0]))
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, 3)

    def ring(k: int) -> float:
        values = level[(depth > k) & (depth <= k + 1)]
        return float(np.median(values)) if values.size else 255.0

    off = 0
    while off < 3 and ring(off) < 0.6 * ring(6):
        off += 1
    contours, _ = cv2.findContours((depth > off).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return None
    points = _pixel_corners(max(contours, key=cv2.contourArea))
    outline = np.asarray(cv2.convexHull(points), np.float32).reshape(-1, 2)
    # A slanted side runs over the tips of a staircase of pixels: a quarter of a pixel inwards is its middle.
    center = (outline.min(axis=0) + outline.max(axis=0)) / 2
    return np.asarray(outline - 0.25 * np.sign(outline - center), np.float32)


def _pixel_corners(points: NDArray[np.int32]) -> NDArray[np.int32]:
    """The four corners of each pixel [N, 1, 2], as [4N, 1, 2]: an outline runs around its pixels, not through them."""
    return np.concatenate([points + np.array([[[dx, dy]]]) for dx in (0, 1) for dy in (0, 1)]).astype(np.int32)


def _ground_level(level: NDArray[np.uint8]) -> int:
    """How bright the dark ground is: the darker corners tell. An image without a ground has level 8."""
    h, w = level.shape
    b = max(2, round(0.03 * max(h, w)))
    corners = [level[:b, :b], level[:b, w - b :], level[h - b :, :b], level[h - b :, w - b :]]
    darkest_two = sorted(float(np.median(corner)) for corner in corners)[:2]
    ground = max(darkest_two)
    return round(ground) if 8 <= ground <= 45 else 8


def _points_of_large_parts(body: NDArray[np.uint8]) -> NDArray[np.int32] | None:
    """Points [N, 1, 2] around all parts that are not small beside the largest."""
    contours, _ = cv2.findContours(body, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    areas = [cv2.contourArea(contour) for contour in contours]
    if not areas or max(areas) == 0:
        return None
    points = np.concatenate([c for c, area in zip(contours, areas, strict=True) if area >= 0.08 * max(areas)])
    return _pixel_corners(points)


def _named_shape(hull: NDArray[np.float32], size: tuple[int, int]) -> tuple[str, NDArray[np.float32]]:
    """The outline's name. A rectangle is completed to its four corners, any other outline stays as it was found."""
    area = cv2.contourArea(hull)
    low, high = hull.min(axis=0), hull.max(axis=0)
    if area >= 0.985 * float(np.prod(high - low)):
        rectangle = [[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]]
        return "rectangle", np.array(rectangle, np.float32)
    return ("circle" if _is_round(hull, size) else "octagon"), hull


def _is_round(hull: NDArray[np.float32], size: tuple[int, int]) -> bool:
    """Whether the outline's points that are not at the frame's edge lie on one circle."""
    inner = (hull > 2).all(axis=1) & (hull < np.array(size) - 2).all(axis=1)
    points = hull[inner]
    if len(points) < 8:
        return False
    system = np.column_stack([2 * points, np.ones(len(points))])
    (cx, cy, rest), *_ = np.linalg.lstsq(system, (points**2).sum(axis=1), rcond=None)
    radius = np.sqrt(max(rest + cx * cx + cy * cy, 0.0))
    error = np.abs(np.hypot(points[:, 0] - cx, points[:, 1] - cy) - radius)
    return bool(np.quantile(error, 0.9) < 0.015 * radius)
