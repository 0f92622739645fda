"""Images: which files count as one, and how they are read, for every stage alike.

Every stage sees a file as the same pixels: 8-bit RGB, the first frame of an animation, without metadata. Alpha is
ignored. 16-bit images keep their upper eight bits. DICOM files are known by their content and need the extra `dicom`.
The orientation tag is not applied: endoscopes write none, and where one is found it was added by hand. What is only
partly there, or damaged in a way that its decoder notices, is refused and never filled up with gray.
"""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path, PurePath
from typing import IO, Literal

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from panendofm.runtime.errors import UserError

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp"})
# More than any endoscope gives; a small file may promise billions, which would fill the memory before anybody sees it.
MAX_PIXELS = 64_000_000

Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
# Pillow's numbers, which transformers stores too.
RESAMPLING_NUMBERS: dict[Interpolation, int] = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}

_JPEG = b"\xff\xd8\xff"
_DICOM = b"DICM"  # after 128 bytes that mean nothing
_TIFF = {b"II*\0": "<", b"MM\0*": ">"}
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_SAMPLES_PER_PIXEL, _PHOTOMETRIC, _BLACK_IS_ZERO, _RGB = 277, 262, 1, 2


class UnreadableImageError(UserError):
    """A file that is no image, or only a part of one. `problem` says what is wrong without naming the file."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


def is_image(path: PurePath | str) -> bool:
    """By its name alone; capitals count too."""
    return PurePath(path).suffix.lower() in IMAGE_SUFFIXES


def open_image(source: Path | str | IO[bytes], name: str | None = None) -> Image.Image:
    """A whole image as RGB. `source` is a path or an open binary file; `name` is what an error calls it."""
    called = name or str(source if isinstance(source, str | Path) else getattr(source, "name", "in memory"))
    try:
        content = Path(source).read_bytes() if isinstance(source, str | Path) else source.read()
    except FileNotFoundError:
        raise _unreadable(called, "it does not exist", "check the path") from None
    except OSError as error:
        raise _unreadable(called, error.strerror or str(error)) from error
    return Image.fromarray(decode_image(content, called))


def decode_image(content: bytes, name: str, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """The pixels [H, W, 3] of an image file's bytes; `name` is what an error calls it."""
    if not content:
        raise _unreadable(name, "the file is empty")
    if content.startswith(_LFS_POINTER):
        raise _unreadable(name, "it is a pointer of Git LFS and not the image", "fetch it with git lfs pull")
    if content[128:132] == _DICOM:
        from panendofm.imaging.dicom import read_dicom_frame  # it imports this file

        return read_dicom_frame(content, name)
    try:
        if content.startswith(_JPEG):
            pixels = _decode_jpeg(content, name, max_pixels)
            if pixels is not None:
                return pixels
        return _decode_with_pillow(content, name, max_pixels)
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, Image.DecompressionBombError) as error:
        # Pillow reports damage by any of these, SyntaxError included (a broken PNG).
        problem = "it is not an image" if isinstance(error, UnidentifiedImageError) else str(error).rstrip(".")
        raise _unreadable(name, problem) from error


def _unreadable(name: str, problem: str, remedy: str = "replace or remove the file") -> UnreadableImageError:
    return UnreadableImageError(f"cannot read the image {name}: {problem}; {remedy}.", problem)


def _refuse_too_large(width: int, height: int, name: str, max_pixels: int) -> None:
    if width * height > max_pixels:
        problem = f"it has {width} × {height} pixels, more than {max_pixels / 1e6:g} million"
        raise _unreadable(name, problem, "make it smaller or remove the file")


def _decode_jpeg(content: bytes, name: str, max_pixels: int) -> NDArray[np.uint8] | None:
    """None for kinds that only Pillow converts (CMYK). Any warning of the decoder counts as damage."""
    height, width, colors, _ = simplejpeg.decode_jpeg_header(content)
    _refuse_too_large(width, height, name, max_pixels)
    if colors in ("CMYK", "YCCK"):
        return None
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(content, "RGB", strict=True)
    return pixels


def _decode_with_pillow(content: bytes, name: str, max_pixels: int) -> NDArray[np.uint8]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tags; and about size, which is limited here
        try:
            image = Image.open(io.BytesIO(content))
        except UnidentifiedImageError:
            mended = _as_rgb_tiff(content)
            if mended is None:
                raise
            image = Image.open(io.BytesIO(mended))
        with image:
            _refuse_too_large(*image.size, name, max_pixels)
            image.load()
            return _to_rgb(image)


def _to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode.startswith("I"):  # 16 bits a pixel; in mode "I" some formats keep them in 32
        gray = (np.asarray(image).astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8)  # [H, W]
        return np.repeat(gray[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers, whose range is not known")
    if image.mode == "LA":
        image = image.convert("L")
    return np.asarray(image.convert("RGB"))


def _as_rgb_tiff(content: bytes) -> bytes | None:
    """A TIFF of three samples a pixel that calls itself gray (CVC-ClinicDB's do), with its colors said right."""
    order = _TIFF.get(content[:4])
    if order is None:
        return None
    (directory,) = struct.unpack_from(f"{order}I", content, 4)
    (entries,) = struct.unpack_from(f"{order}H", content, directory)
    fields = {}
    for entry in range(entries):
        place = directory + 2 + 12 * entry
        tag, kind, count, value = struct.unpack_from(f"{order}HHIH", content, place)
        if kind == 3 and count == 1:  # one short number, which stands in the entry itself
            fields[tag] = (value, place + 8)
    samples, photometric = fields.get(_SAMPLES_PER_PIXEL), fields.get(_PHOTOMETRIC)
    if samples is None or photometric is None or samples[0] != 3 or photometric[0] != _BLACK_IS_ZERO:
        return None
    mended = bytearray(content)
    struct.pack_into(f"{order}H", mended, photometric[1], _RGB)
    return bytes(mended)


def thumbnail(image: Image.Image | NDArray[np.uint8], longest_px: int = 320) -> bytes:
    """A JPEG for a page; no side is longer than `longest_px`."""
    small = Image.fromarray(np.asarray(image))
    small.thumbnail((longest_px, longest_px))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
