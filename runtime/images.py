"""What counts as a picture file, and the names of resampling filters: the same for every stage."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
# Pillow's numbers, which transformers stores too.
RESAMPLING_NUMBERS: dict[Interpolation, int] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


def is_image(path: PurePath | str) -> bool:
    """By its name alone; capitals count too."""
    return PurePath(path).suffix.lower() in IMAGE_SUFFIXES
