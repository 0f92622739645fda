"""Whether an image is a copy of one of a set, whatever was done to it: re-encoded, resized, cropped, brighter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.images import UnreadableImageError, decode_image, is_image
from panendofm.imaging.leakage import GuardedImage, Thumbnail, guarded_image, thumbnail_of
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import sha256_of
from panendofm.vqa.bench.bench_folder import Bench


def content_thumbnail(content: bytes, name: str) -> Thumbnail | None:
    """None for what can't be read, or shows no field of view."""
    try:
        rgb = decode_image(content, name)
    except UnreadableImageError:
        return None
    view = detect_field_of_view([rgb], FieldOfViewConfig())
    if view is None:
        return None
    left, top, right, bottom = view.box
    part: NDArray[np.uint8] = rgb[top:bottom, left:right]
    return thumbnail_of(part, view.cropped_to((right - left, bottom - top)).mask())


def guarded_bench(bench: Bench) -> list[GuardedImage]:
    """The bench's images, named by the checksum of their originals; one without drawn marks where there is one."""
    best = {}
    for item in bench.items:
        marked = any(region.color for region in item.regions)
        if item.image and (item.sha256 not in best or not marked):
            best[item.sha256] = item
    return [
        guarded_image(sha256, sha256, content_thumbnail(bench.image(item), item.image))
        for sha256, item in sorted(best.items())
    ]


def image_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder of images; check the path.")
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and is_image(file)]


def guarded_folder(files: Iterable[Path]) -> Iterator[GuardedImage]:
    for file in files:
        digest = sha256_of(file)
        yield guarded_image(digest, digest, content_thumbnail(file.read_bytes(), file.name))
