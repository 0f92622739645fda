"""What is measured on every image: checksum, perceptual hash, size and quality."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.clean import field_of_view_hash
from panendofm.imaging.images import UnreadableImageError, open_image

# Quality is measured at one size, so that large and small copies of an image score alike.
_QUALITY_SIDE_PX = 256
# Darker than this is border, not mucosa; brighter is glare.
_BORDER_BELOW, _GLARE_ABOVE = 16, 245


@dataclass(frozen=True)
class Quality:
    """Scores of the lit part of an image; brightness and contrast from 0 to 1, shares from 0 to 1."""

    sharpness: float  # variance of the Laplacian
    brightness: float
    contrast: float
    glare_share: float
    lit_share: float  # of the whole image


@dataclass(frozen=True)
class Measured:
    sha256: str
    perceptual_hash: bytes  # of its field of view
    width: int
    height: int
    quality: Quality


def measure(path: Path) -> Measured | UnreadableImageError:
    """All that the atlas stores of an image, from one read of the file; the error of a damaged one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return UnreadableImageError(f"cannot read the image {path}: {error.strerror}; replace or remove the file.")
    try:
        pixels = np.asarray(open_image(io.BytesIO(content), str(path)))  # [H, W, 3] uint8
    except UnreadableImageError as error:
        return error
    height, width = pixels.shape[:2]
    digest = hashlib.sha256(content).hexdigest()
    return Measured(digest, field_of_view_hash(pixels).tobytes(), width, height, quality_of(pixels))


def quality_of(pixels: NDArray[np.uint8]) -> Quality:
    """Scores of an RGB image [H, W, 3]."""
    height, width = pixels.shape[:2]
    scale = _QUALITY_SIDE_PX / min(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    grey = cv2.cvtColor(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
    lit = grey >= _BORDER_BELOW  # [h, w]
    if not lit.any():
        return Quality(0.0, float(grey.mean()) / 255, 0.0, 0.0, 0.0)
    # The step from border to mucosa is no detail: look only where the neighbors are lit too.
    inside = cv2.erode(lit.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
    laplacian = cv2.Laplacian(grey, cv2.CV_32F)
    return Quality(
        sharpness=float(laplacian[inside].var()) if inside.any() else 0.0,
        brightness=float(grey[lit].mean()) / 255,
        contrast=float(grey[lit].std()) / 255,
        glare_share=float((grey[lit] > _GLARE_ABOVE).mean()),
        lit_share=float(lit.mean()),
    )


def measure_all(paths: Sequence[Path]) -> Iterator[Measured | UnreadableImageError]:
    """In the order of the paths, on all cores (decoding and OpenCV work outside the interpreter's lock)."""
    block = 1024  # bounds what waits in memory
    with ThreadPoolExecutor(os.cpu_count() or 1, "measure") as pool:
        for start in range(0, len(paths), block):
            yield from pool.map(measure, paths[start : start + block])
