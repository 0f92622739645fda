"""Whether two images are the same one, whatever was done to them.

An image becomes a gray thumbnail of its field of view and a mask that leaves out the position box and all outside.
Two steps: short vectors of its detail, one for each way a copy may show it, find candidates; `correlation_when_aligned`
then lays one thumbnail over the other, with a free choice of shift, scale, turn and shear, and says how well their
details agree. Brightness, contrast and slow shading drop out of both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.leakage.views import (
    IDENTITY,
    SYMMETRIES,
    WINDOWS,
    View,
    after,
    from_pixels,
    in_pixels,
    scale_of,
    seen_through,
    turned,
)

THUMBNAIL_PX = 96
# More would tell a copy from its neighbors no better, and lose it when it lies between two windows.
DESCRIPTOR_PX = 8
DESCRIPTOR_LENGTH = DESCRIPTOR_PX**2

_SEEN_PX = 32
_ALIGNED_PX = 64
_MIN_OVERLAP = 0.7
_MIN_PIXELS = 300
_SCALES = (0.38, 1.25)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Thumbnail:
    """A gray image [96, 96] and where it is valid (1) or not (0)."""

    gray: NDArray[np.uint8]
    mask: NDArray[np.uint8]


def thumbnail_of(rgb: NDArray[np.uint8], inside: NDArray[np.uint8]) -> Thumbnail:
    """The thumbnail of an image that was cropped to its field of view; `inside` [H, W] is 255 on valid pixels."""
    size = (THUMBNAIL_PX, THUMBNAIL_PX)
    gray = cv2.resize(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), size, interpolation=cv2.INTER_AREA)
    mask = cv2.resize(inside, size, interpolation=cv2.INTER_AREA) > 250
    return Thumbnail(gray, mask.astype(np.uint8))


def descriptors_of_windows(thumbnail: Thumbnail) -> Floats:
    """What any copy of it may look like: vectors of length 1 [windows, 64]."""
    return _descriptors(thumbnail, WINDOWS)


def descriptors_of_symmetries(thumbnail: Thumbnail) -> Floats:
    """The image turned and mirrored: vectors of length 1 [8, 64]; equal images have a product near 1.

    A turned image has the turned vector, so that one is enough.
    """
    upright = _descriptors(thumbnail, [IDENTITY])[0].reshape(DESCRIPTOR_PX, DESCRIPTOR_PX)
    return np.stack([turned(upright, symmetry).reshape(-1) for symmetry in SYMMETRIES])


def _descriptors(thumbnail: Thumbnail, views: Sequence[View]) -> Floats:
    """Vectors of length 1 [views, 64]. Views of one scale share what is blurred for it."""
    gray, mask = thumbnail.gray.astype(np.float32), thumbnail.mask.astype(np.float32)
    blurred = {sigma: _blurred(gray, mask, sigma) for sigma in {_sigma_for(view, _SEEN_PX) for view in views}}
    grays = np.stack([seen_through(blurred[_sigma_for(view, _SEEN_PX)], view, _SEEN_PX) for view in views])
    masks = np.stack([seen_through(mask, view, _SEEN_PX) for view in views])  # [views, 32, 32]
    details = _details(grays, masks, 0.2 * _SEEN_PX, 4.0)
    step = _SEEN_PX // DESCRIPTOR_PX
    coarse = details.reshape(-1, DESCRIPTOR_PX, step, DESCRIPTOR_PX, step).mean(axis=(2, 4))
    vectors = coarse.reshape(len(views), DESCRIPTOR_LENGTH)
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6), np.float32)


def _seen(thumbnail: Thumbnail, view: View, side_px: int) -> tuple[Floats, Floats]:
    """Gray values and mask [side, side] through a view, without the detail that so few pixels can't hold."""
    gray, mask = thumbnail.gray.astype(np.float32), thumbnail.mask.astype(np.float32)
    gray = _blurred(gray, mask, _sigma_for(view, side_px))
    return seen_through(gray, view, side_px), seen_through(mask, view, side_px)


def _sigma_for(view: View, side_px: int) -> float:
    """How much blur takes away the detail that is lost through a view. Rounded, so that equal scales compare equal."""
    shrinks = scale_of(view) * THUMBNAIL_PX / side_px
    return round(0.5 * max(shrinks - 1, 0) + 0.3, 9)


def _blurred(gray: Floats, mask: Floats, sigma: float) -> Floats:
    """Only what is inside the mask counts."""
    weight = cv2.GaussianBlur(mask, (0, 0), sigma) + 1e-3
    return np.asarray(cv2.GaussianBlur(gray * mask, (0, 0), sigma) / weight, np.float32)


def _as_coarse_as(gray: Floats, mask: Floats, scale: float) -> Floats:
    """With no more detail than a window of that scale has when it is enlarged to the same size."""
    sigma = 0.5 * np.sqrt(max(1 / scale**2 - 1, 0.0)) * gray.shape[0] / THUMBNAIL_PX
    return gray if sigma < 0.2 else _blurred(gray, mask, float(sigma))


def _detail(gray: Floats, mask: Floats, sigma: float, floor: float) -> Floats:
    """The gray values less their local mean, over their local spread; 0 outside the mask."""
    weight = cv2.GaussianBlur(mask, (0, 0), sigma) + 1e-3
    mean = cv2.GaussianBlur(gray * mask, (0, 0), sigma) / weight
    spread = np.sqrt(cv2.GaussianBlur((gray - mean) ** 2 * mask, (0, 0), sigma) / weight) + floor
    return np.asarray((gray - mean) / spread * mask, np.float32)


def _details(grays: Floats, masks: Floats, sigma: float, floor: float) -> Floats:
    """`_detail` of many small images [n, side, side] at once: as products of matrices, a blur takes a tenth as long."""
    blur = _blur_matrix(grays.shape[1], sigma)

    def blurred(images: Floats) -> Floats:
        return np.asarray(blur @ images @ blur.T, np.float32)

    weights = blurred(masks) + 1e-3
    means = blurred(grays * masks) / weights
    spreads = np.sqrt(blurred((grays - means) ** 2 * masks) / weights) + floor
    return np.asarray((grays - means) / spreads * masks, np.float32)


@cache
def _blur_matrix(side_px: int, sigma: float) -> Floats:
    """[side, side]: times the columns of an image, what `cv2.GaussianBlur` does to them."""
    taps = round(8 * sigma + 1) | 1
    kernel = cv2.getGaussianKernel(taps, sigma, cv2.CV_32F)
    columns = np.eye(side_px, dtype=np.float32)
    return np.asarray(cv2.sepFilter2D(columns, cv2.CV_32F, np.ones(1, np.float32), kernel), np.float32)


def correlation_when_aligned(one: Thumbnail, other: Thumbnail, view: View) -> float:
    """How well `one` agrees with what it shows of `other` (about `view`), from -1 to 1; 0: they can't be aligned."""
    view = _aligned(one, other, view)
    scale = scale_of(view)
    if not _SCALES[0] < scale < _SCALES[1]:
        return 0.0
    warp, size, flags = in_pixels(view, THUMBNAIL_PX, THUMBNAIL_PX), (THUMBNAIL_PX, THUMBNAIL_PX), cv2.WARP_INVERSE_MAP
    gray = cv2.warpAffine(other.gray, warp, size, flags=flags | cv2.INTER_LINEAR)
    valid = cv2.warpAffine(other.mask, warp, size, flags=flags | cv2.INTER_NEAREST)
    both = (one.mask & valid).astype(np.float32)
    if both.sum() < max(_MIN_OVERLAP * one.mask.sum(), _MIN_PIXELS):
        return 0.0
    own = _as_coarse_as(one.gray.astype(np.float32), one.mask.astype(np.float32), min(scale, 1.0))
    sigma = THUMBNAIL_PX / 16
    a, b = _detail(own, both, sigma, 3.0), _detail(gray.astype(np.float32), both, sigma, 3.0)
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum() + 1e-6))


def _aligned(one: Thumbnail, other: Thumbnail, view: View) -> View:
    """The view, corrected. Both are compared as the copy shows them: at one scale their detail is alike."""
    gray, mask = _seen(one, IDENTITY, _ALIGNED_PX)
    sigma = _ALIGNED_PX / 10
    a = _detail(_as_coarse_as(gray, mask, min(scale_of(view), 1.0)), mask, sigma, 3.0)
    b = _detail(*_seen(other, view, _ALIGNED_PX), sigma, 3.0)
    warp = in_pixels(IDENTITY, _ALIGNED_PX, _ALIGNED_PX)
    inside = (mask > 0.9).astype(np.uint8)
    # When it does not converge, the two have little in common, and the start serves as well as any.
    with contextlib.suppress(cv2.error):
        _, warp = cv2.findTransformECC(a, b, warp, cv2.MOTION_AFFINE, (3, 30, 1e-3), inside, 5)
    return after(from_pixels(np.asarray(warp, np.float32), _ALIGNED_PX), view)
