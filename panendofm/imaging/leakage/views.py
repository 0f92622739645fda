"""The ways in which a copy may show an image: a window of it, turned, mirrored or upside down.

A view is an affine map [2, 3] in shares of the sides: it leads from a place in the copy (0…1, 0…1) to the place in the
original that is shown there. Guarded images are described through every window, frames in all eight symmetries, so
that each pair of the two is tried; alignment then finds what lies between them.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

# What is found as a copy; docs/results/data-pipeline.md has the recall of each.
COVERED = (
    "re-encoded, resized, brighter or darker",
    "mirrored, upside down or by quarter turns",
    "all sides cut by up to 25%, one side by up to 30%",
    "turned by up to 30 degrees",
)

View = NDArray[np.float64]  # [2, 3]

# Shares of the sides that are left when all four are cut alike, and when a corner or an edge is kept.
_MIDDLES = (1.0, 0.92, 0.84, 0.75, 0.59, 0.46)
_ANYWHERE = (0.68, 0.53)
_ONE_SIDE_CUT = (0.1, 0.2, 0.3)
_TWO_SIDES_CUT = (0.12, 0.22)
_TURNS_DEGREES = (-30, -20, -10, 10, 20, 30)


def _window(left: float, top: float, right: float, bottom: float, degrees: float = 0.0) -> View:
    """The part of the original between these shares of its sides, turned about its middle."""
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = turn @ np.diag([right - left, bottom - top])
    middle = np.array([(left + right) / 2, (top + bottom) / 2])
    return np.column_stack([linear, middle - linear @ [0.5, 0.5]])


def _windows() -> list[View]:
    found = [_window((1 - p) / 2, (1 - p) / 2, (1 + p) / 2, (1 + p) / 2) for p in _MIDDLES]
    for p in _ANYWHERE:
        places = [share * (1 - p) for share in (0.0, 0.5, 1.0)]
        found += [_window(x, y, x + p, y + p) for x in places for y in places]
    for cut in _ONE_SIDE_CUT:
        found += [_window(cut, 0, 1, 1), _window(0, cut, 1, 1), _window(0, 0, 1 - cut, 1), _window(0, 0, 1, 1 - cut)]
    for cut in _TWO_SIDES_CUT:
        found += [_window(x, y, x + 1 - cut, y + 1 - cut) for x in (0.0, cut) for y in (0.0, cut)]
    for low, high in ((0.0, 0.66), (0.34, 1.0), (0.17, 0.83)):  # cut most on two opposite sides
        found += [_window(low, 0.25, high, 0.75), _window(0.25, low, 0.75, high)]
    return found + [_window(0, 0, 1, 1, degrees) for degrees in _TURNS_DEGREES]


def _symmetries() -> list[View]:
    """As they are, mirrored, upside down and by quarter turns: the eight that map a square onto itself."""
    found = []
    for swap in (False, True):
        for flip_x in (1, -1):
            for flip_y in (1, -1):
                linear = np.diag([flip_x, flip_y]).astype(float)
                linear = linear[:, ::-1] if swap else linear
                found.append(np.column_stack([linear, 0.5 - linear @ [0.5, 0.5]]))
    return found


WINDOWS = _windows()
SYMMETRIES = _symmetries()
IDENTITY = SYMMETRIES[0]


def after(first: View, second: View) -> View:
    """The view that leads first through `first`, then through `second`."""
    return np.column_stack([second[:, :2] @ first[:, :2], second[:, :2] @ first[:, 2] + second[:, 2]])


def inverse(view: View) -> View:
    linear = np.linalg.inv(view[:, :2])
    return np.column_stack([linear, -linear @ view[:, 2]])


def scale_of(view: View) -> float:
    """How large a side of the copy is in the original, on average."""
    return float(np.sqrt(abs(np.linalg.det(view[:, :2]))))


def in_pixels(view: View, copy_px: int, original_px: int) -> NDArray[np.float32]:
    """The view as a map between the centers of pixels of two square images."""
    linear = view[:, :2] * original_px / copy_px
    offset = view[:, 2] * original_px - 0.5 + linear @ [0.5, 0.5]
    return np.column_stack([linear, offset]).astype(np.float32)


def from_pixels(warp: NDArray[np.float32], side_px: int) -> View:
    """The view of a map between two images of `side_px`."""
    linear = warp[:, :2].astype(float)
    return np.column_stack([linear, (warp[:, 2] + 0.5 - linear @ [0.5, 0.5]) / side_px])


def seen_through(image: NDArray[np.float32], view: View, side_px: int) -> NDArray[np.float32]:
    """A square image [P, P] through a view, as [side, side]; 0 outside it."""
    warp = in_pixels(view, side_px, image.shape[0])
    flags = cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR
    return np.asarray(cv2.warpAffine(image, warp, (side_px, side_px), flags=flags), np.float32)


def turned(image: NDArray[np.float32], symmetry: View) -> NDArray[np.float32]:
    """A square image [P, P] through one of the eight symmetries: what `seen_through` gives, without interpolation."""
    linear = symmetry[:, :2].round().astype(int)
    across, down = linear.sum(axis=1)  # 1 or -1: which way x and y of the image run
    flipped = image[::down, ::across]
    return flipped if linear[0, 0] else flipped.T
