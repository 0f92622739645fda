"""Whether two pictures are the same one, whatever was done to them.

A picture becomes a grey thumbnail of its field of view and a mask that leaves out the position box and all outside.
Two steps: `descriptor` gives a short vector for a quick search; `correlation_when_aligned` then lays one thumbnail over
the other, with a free choice of shift, scale and shear, and says how well their details agree. Brightness, contrast and
slow shading drop out of both.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

THUMBNAIL_PX = 96
DESCRIPTOR_PX = 16

# A copy whose border was cut shows the middle of the original: the parts (share of each side) that are searched.
PARTS = (1.0, 0.92, 0.84, 0.75)

_ALIGNED_PX = 64
_MIN_OVERLAP = 0.7
_SCALES = (0.6, 1.25)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Thumbnail:
    """A grey picture [96, 96] and where it is valid (1) or not (0)."""

    grey: NDArray[np.uint8]
    mask: NDArray[np.uint8]


def thumbnail_of(rgb: NDArray[np.uint8], inside: NDArray[np.uint8]) -> Thumbnail:
    """The thumbnail of a picture that was cropped to its field of view; `inside` [H, W] is 255 on valid pixels."""
    size = (THUMBNAIL_PX, THUMBNAIL_PX)
    grey = cv2.resize(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), size, interpolation=cv2.INTER_AREA)
    mask = cv2.resize(inside, size, interpolation=cv2.INTER_AREA) > 250
    return Thumbnail(grey, mask.astype(np.uint8))


def descriptor(thumbnail: Thumbnail, part: float = 1.0) -> Floats:
    """A vector of length 1 [256] for the middle `part` of the thumbnail; equal pictures have a product near 1."""
    cut = round(THUMBNAIL_PX * (1 - part) / 2)
    inner = slice(cut, THUMBNAIL_PX - cut)
    side = (2 * DESCRIPTOR_PX, 2 * DESCRIPTOR_PX)
    grey = cv2.resize(thumbnail.grey[inner, inner], side, interpolation=cv2.INTER_AREA).astype(np.float32)
    mask = cv2.resize(thumbnail.mask[inner, inner] * 255, side, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    detail = _detail(grey, mask, 0.2 * side[0], 4.0)
    small = cv2.resize(detail, (DESCRIPTOR_PX, DESCRIPTOR_PX), interpolation=cv2.INTER_AREA).reshape(-1)
    return np.asarray(small / (np.linalg.norm(small) + 1e-6), np.float32)


def _detail(grey: Floats, mask: Floats, sigma: float, floor: float) -> Floats:
    """The grey values less their local mean, over their local spread; 0 outside the mask."""
    weight = cv2.GaussianBlur(mask, (0, 0), sigma) + 1e-3
    mean = cv2.GaussianBlur(grey * mask, (0, 0), sigma) / weight
    spread = np.sqrt(cv2.GaussianBlur((grey - mean) ** 2 * mask, (0, 0), sigma) / weight) + floor
    return np.asarray((grey - mean) / spread * mask, np.float32)


def correlation_when_aligned(one: Thumbnail, other: Thumbnail, part: float) -> float:
    """How well `one` agrees with (about the middle `part` of) `other`, from -1 to 1; 0 when they can't be aligned."""
    warp = _align(one, other, part)
    size = (THUMBNAIL_PX, THUMBNAIL_PX)
    flags = cv2.WARP_INVERSE_MAP
    grey = cv2.warpAffine(other.grey, warp, size, flags=flags | cv2.INTER_LINEAR)
    valid = cv2.warpAffine(other.mask, warp, size, flags=flags | cv2.INTER_NEAREST)
    both = (one.mask & valid).astype(np.float32)
    scale = float(np.sqrt(abs(np.linalg.det(warp[:, :2]))))
    if both.sum() < _MIN_OVERLAP * one.mask.sum() or both.sum() < 300 or not _SCALES[0] < scale < _SCALES[1]:
        return 0.0
    sigma = THUMBNAIL_PX / 16
    a = _detail(one.grey.astype(np.float32), both, sigma, 3.0)
    b = _detail(grey.astype(np.float32), both, sigma, 3.0)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum() + 1e-6))


def _align(one: Thumbnail, other: Thumbnail, part: float) -> NDArray[np.float32]:
    """The affine map [2, 3] from pixels of `one` to those of `other`, found from a start at its middle `part`."""
    side = (_ALIGNED_PX, _ALIGNED_PX)
    sigma = THUMBNAIL_PX / 16
    a, b = (
        cv2.resize(
            _detail(t.grey.astype(np.float32), t.mask.astype(np.float32), sigma, 3.0),
            side,
            interpolation=cv2.INTER_AREA,
        )
        for t in (one, other)
    )
    mask = cv2.resize(one.mask, side, interpolation=cv2.INTER_NEAREST)
    offset = _ALIGNED_PX * (1 - part) / 2
    warp = np.array([[part, 0, offset], [0, part, offset]], np.float32)
    # When it does not converge, the two have little in common, and the start serves as well as any.
    with contextlib.suppress(cv2.error):
        _, warp = cv2.findTransformECC(a, b, warp, cv2.MOTION_AFFINE, (3, 30, 1e-4), mask, 5)
    warp[:, 2] *= THUMBNAIL_PX / _ALIGNED_PX
    return np.asarray(warp, np.float32)
