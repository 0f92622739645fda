"""What is measured on every image: checksum, perceptual hash, size and quality."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from panendofm.imaging.frame_filters.clean import hashed_layout, layout_hash
from panendofm.imaging.frame_filters.config import VerdictConfig
from panendofm.imaging.frame_filters.verdict import ImageQuality, judge
from panendofm.imaging.images import UnreadableImageError, open_image


@dataclass(frozen=True)
class Measured:
    sha256: str
    perceptual_hash: bytes  # of its field of view
    width: int
    height: int
    quality: ImageQuality


def measure(path: Path, verdict: VerdictConfig) -> Measured | UnreadableImageError:
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
    layout = hashed_layout(pixels)
    return Measured(
        sha256=hashlib.sha256(content).hexdigest(),
        perceptual_hash=layout_hash(pixels, layout).tobytes(),
        width=width,
        height=height,
        quality=judge(pixels, layout, verdict),
    )


def measure_all(
    paths: Sequence[Path], verdict: VerdictConfig | None = None
) -> Iterator[Measured | UnreadableImageError]:
    """In the order of the paths, on all cores (decoding and OpenCV work outside the interpreter's lock)."""
    config = verdict or VerdictConfig()
    block = 1024  # bounds what waits in memory
    # The text detector is one for the process.
    threads = 1 if config.text else os.cpu_count() or 1
    with ThreadPoolExecutor(threads, "measure") as pool:
        for start in range(0, len(paths), block):
            yield from pool.map(partial(measure, verdict=config), paths[start : start + block])
