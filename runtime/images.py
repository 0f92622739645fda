"""Pictures: which files count as one, how they are read, and the names of resampling filters, for every stage alike."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any, Literal

from PIL import Image

from runtime.errors import UserError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
# Pillow's numbers, which transformers stores too.
RESAMPLING_NUMBERS: dict[Interpolation, int] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}


def is_image(path: PurePath | str) -> bool:
    """By its name alone; capitals count too."""
    return PurePath(path).suffix.lower() in IMAGE_SUFFIXES


class UnreadableImageError(UserError):
    """A file that is no picture, or only a part of one."""


def open_image(source: Path | str | Any, name: str | None = None) -> Image.Image:
    """Decode a whole picture to RGB. `source` is a path or an open binary file; `name` is what an error calls it."""
    try:
        with Image.open(source) as image:
            return image.convert("RGB")
    except FileNotFoundError:
        raise UnreadableImageError(
            f"cannot read the image {name or source}: it does not exist; check the path."
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        # Pillow reports damage by any of these, SyntaxError included (a broken PNG).
        raise UnreadableImageError(
            f"cannot read the image {name or source}: {str(error).rstrip('.')}; replace or remove the file."
        ) from error
