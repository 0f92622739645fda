"""Two views in one frame, such as white light and narrow band side by side: the first of them is the image."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]  # [H, W, 3] RGB
Mask = NDArray[np.uint8]  # [H, W], not 0 where the image is

_SMALLEST_SEAM_RATIO = 1.6  # one view is hardly wider than this times its height


def first_of_two_views(body: Mask, frames: Sequence[Image]) -> Mask:
    """`body` with the second view cleared, or as it was when it shows one."""
    second = _second_part(body)
    if second is not None:
        return np.where(second, 0, body).astype(np.uint8)
    seam = _seam(body, frames)
    if seam is not None:
        body = body.copy()
        body[:, seam - 1 :] = 0
    return body


def _second_part(body: Mask) -> NDArray[np.bool_] | None:
    """Where the right or lower one is of two equal, separate and symmetric parts [H, W].

    A dark lumen from edge to edge also parts a view, but its halves lean towards each other.
    """
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(body, connectivity=4)
    areas = statistics[1:, cv2.CC_STAT_AREA]
    large = 1 + np.flatnonzero(areas >= 0.08 * areas.max()) if count > 1 else np.array([], int)
    if len(large) != 2 or not all(_is_symmetric(labels == label) for label in large):
        return None
    (x0, y0, w0, h0, _), (x1, y1, w1, h1, _) = (statistics[label] for label in large)
    if abs(w0 - w1) > 0.1 * max(w0, w1) or abs(h0 - h1) > 0.1 * max(h0, h1):
        return None
    beside = abs(y0 - y1) <= 0.06 * h0 and (x0 + w0 <= x1 or x1 + w1 <= x0)
    above = abs(x0 - x1) <= 0.06 * w0 and (y0 + h0 <= y1 or y1 + h1 <= y0)
    if not (beside or above):
        return None
    first_is_first = x0 < x1 if beside else y0 < y1
    return np.asarray(labels == large[1 if first_is_first else 0])


def _is_symmetric(part: NDArray[np.bool_]) -> bool:
    """Whether the part's outline has its center of mass in the middle of its box."""
    contours, _ = cv2.findContours(part.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    hull = cv2.convexHull(max(contours, key=cv2.contourArea))
    x, y, w, h = cv2.boundingRect(hull)
    moments = cv2.moments(hull)
    if moments["m00"] < 0.7 * w * h:
        return False
    dx, dy = moments["m10"] / moments["m00"] - x - w / 2, moments["m01"] / moments["m00"] - y - h / 2
    return bool(abs(dx) <= 0.05 * w and abs(dy) <= 0.05 * h)


def _seam(body: Mask, frames: Sequence[Image]) -> int | None:
    """The column in which two views meet without a gap: a straight edge down the middle of a wide image."""
    x, y, w, h = cv2.boundingRect(body)
    if h == 0 or w < _SMALLEST_SEAM_RATIO * h:
        return None
    rows = slice(y + h // 6, y + h - h // 6)
    edges = []
    for frame in frames:
        inside = frame[rows, x : x + w].astype(np.int16)
        step = np.abs(inside[:, 4:] - inside[:, :-4]).max(axis=2)  # [rows, w - 4], around column 2, 3, ...
        edges.append((step > 14).mean(axis=0))
    share = np.mean(edges, axis=0)
    middle = range(round(0.47 * w) - 2, round(0.53 * w) - 2)
    best = max(middle, key=lambda column: share[column])
    if share[best] < max(0.6, 2 * np.median(share[round(0.2 * w) : round(0.8 * w)])):
        return None
    # The seam is as wide as the step that was looked for: its middle.
    strong = [column for column in middle if share[column] >= 0.9 * share[best]]
    return int(x) + round(float(np.mean(strong))) + 2
