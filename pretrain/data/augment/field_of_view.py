"""Where in a frame the endoscope's image is: without the black border and the panels beside it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

_SIDE_PX = 64  # the field is found on a small copy of the frame
_DARKEST = 20  # mucosa is brighter than this; borders are black with some coding noise
_SMALLEST_SHARE = 0.1  # a frame whose bright part is smaller than this is taken as it is


@dataclass(frozen=True)
class FieldOfView:
    """Bounding box in pixels of the frame, and the area inside the field as an integral image of a coarse grid."""

    left: int
    top: int
    width: int
    height: int
    frame_width: int
    frame_height: int
    integral: npt.NDArray[np.float64]  # [rows + 1, columns + 1]

    def share_of(self, boxes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Share of each box (left, top, width, height: [..., 4]) that lies in the field, to the grid's accuracy."""
        rows, columns = self.integral.shape[0] - 1, self.integral.shape[1] - 1
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        x0, x1 = (np.rint(edge * columns / self.frame_width).astype(np.int64) for edge in (x, x + w))
        y0, y1 = (np.rint(edge * rows / self.frame_height).astype(np.int64) for edge in (y, y + h))
        s = self.integral
        inside = s[y1, x1] - s[y0, x1] - s[y1, x0] + s[y0, x0]
        share: npt.NDArray[np.float64] = inside / np.maximum((x1 - x0) * (y1 - y0), 1)
        return share


def find_field_of_view(image: npt.NDArray[np.uint8]) -> FieldOfView:
    """The convex hull of the largest bright region of a frame [H, W, 3]: the dark lumen in its middle belongs to it."""
    height, width = image.shape[:2]
    scale = _SIDE_PX / max(height, width)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    small = cv2.resize(image, (columns, rows), interpolation=cv2.INTER_NEAREST)
    bright = cv2.medianBlur((small.max(axis=2) > _DARKEST).astype(np.uint8), 3)  # text and noise are thin
    field = _hull_of_largest_region(bright)
    if field.mean() < _SMALLEST_SHARE:
        field = np.ones_like(field)
    ys, xs = np.flatnonzero(field.max(axis=1)), np.flatnonzero(field.max(axis=0))
    left, right = int(xs[0] * width / columns), int((xs[-1] + 1) * width / columns)
    top, bottom = int(ys[0] * height / rows), int((ys[-1] + 1) * height / rows)
    integral = cv2.integral(field).astype(np.float64)
    return FieldOfView(left, top, right - left, bottom - top, width, height, integral)


def _hull_of_largest_region(bright: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    field = np.zeros_like(bright)
    contours, _ = cv2.findContours(bright, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    if contours:
        largest = max(contours, key=cv2.contourArea)
        cv2.fillConvexPoly(field, cv2.convexHull(largest), 1)
    return field
