"""The pixels of DICOM files: one frame or many, whatever the color space, as 8-bit RGB. Needs the extra `dicom`.

pydicom decodes and turns YBR into RGB. What is left to us: palettes, inverted gray (MONOCHROME1), the window that the
file asks for, and more than eight bits, of which the upper eight are kept as for any other image.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.images import MAX_PIXELS, UnreadableImageError
from panendofm.runtime.errors import UserError

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

_DAMAGE = (
    *(AttributeError, EOFError, IndexError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError),
    *(ValueError, struct.error),
)
DICOM_SUFFIXES = frozenset({".dcm", ".dicom"})


def read_dicom_frame(source: Path | bytes, name: str | None = None, frame: int = 0) -> NDArray[np.uint8]:
    """One frame [H, W, 3] of a file, or of its bytes; `name` is what an error calls it."""
    try:
        return next(_frames(source, name, [frame]))
    except StopIteration:
        raise _unreadable(_called(source, name), f"it has no frame {frame}") from None


def dicom_frames(source: Path | bytes, name: str | None = None) -> Iterator[NDArray[np.uint8]]:
    """All frames [H, W, 3], one at a time."""
    return _frames(source, name, None)


def _called(source: Path | bytes, name: str | None) -> str:
    return name or (str(source) if isinstance(source, Path) else "in memory")


def _unreadable(called: str, problem: str) -> UnreadableImageError:
    return UnreadableImageError(f"cannot read the image {called}: {problem}; replace or remove the file.", problem)


def read_dicom_head(source: Path | bytes, name: str | None = None) -> Dataset:
    """All but the pixels."""
    called = _called(source, name)
    with _readable(called):
        head: Dataset = _pydicom(called).dcmread(_opened(source), stop_before_pixels=True)
    return head


def _pydicom(called: str) -> ModuleType:
    try:
        import pydicom
        import pydicom.errors
        import pydicom.pixels.utils
    except ImportError:
        raise UserError(
            f"{called}: DICOM files need the package pydicom; install it with 'pip install panendofm[dicom]'."
        ) from None
    return pydicom


@contextmanager
def _readable(called: str) -> Iterator[None]:
    errors = _pydicom(called).errors
    try:
        yield
    except UnreadableImageError:
        raise
    except (errors.InvalidDicomError, errors.BytesLengthException, *_DAMAGE) as error:
        # pydicom reports damage, and what it has no decoder for, by any of these.
        raise _unreadable(called, str(error).split("\n")[0].rstrip(".") or type(error).__name__) from error


def _frames(source: Path | bytes, name: str | None, indices: list[int] | None) -> Iterator[NDArray[np.uint8]]:
    called = _called(source, name)
    iter_pixels = _pydicom(called).pixels.utils.iter_pixels
    with _readable(called):
        content = _opened(source)
        head = read_dicom_head(content.getvalue(), called)
        _check(head, called)
        if indices is not None and indices[0] >= int(head.get("NumberOfFrames") or 1):
            return
        for pixels in iter_pixels(content, indices=indices):
            yield _as_rgb(pixels, head)


def _opened(source: Path | bytes) -> io.BytesIO:
    """In memory: a file that promises gigabytes by a damaged length must not get them."""
    return io.BytesIO(source.read_bytes() if isinstance(source, Path) else source)


def _check(head: Dataset, called: str) -> None:
    syntax = head.file_meta.TransferSyntaxUID
    if "MPEG" in syntax.name or "HEVC" in syntax.name:
        raise _unreadable(called, f"it holds a video stream ({syntax.name}), which must be taken out of it first")
    pixels = int(head.Rows) * int(head.Columns)
    if not 0 < pixels <= MAX_PIXELS:
        raise _unreadable(called, f"it has {head.Columns} × {head.Rows} pixels")
    if int(head.SamplesPerPixel) not in (1, 3):
        raise _unreadable(called, f"it has {head.SamplesPerPixel} samples a pixel")


def _as_rgb(pixels: NDArray[np.generic], head: Dataset) -> NDArray[np.uint8]:
    """One decoded frame [H, W] or [H, W, 3]."""
    if pixels.ndim == 3:
        return np.ascontiguousarray(_upper_bits(pixels, int(head.BitsStored)))
    if head.PhotometricInterpretation == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        colors = apply_color_lut(pixels, head)[..., :3]
        return np.ascontiguousarray(_upper_bits(colors, 8 * colors.dtype.itemsize))
    gray = _windowed(pixels, head)
    if head.PhotometricInterpretation == "MONOCHROME1":
        gray = 255 - gray
    return np.repeat(gray[:, :, None], 3, axis=2)


def _upper_bits(values: NDArray[np.generic], bits: int) -> NDArray[np.uint8]:
    whole = values.astype(np.int64)
    return (whole >> (bits - 8) if bits > 8 else whole << (8 - bits)).clip(0, 255).astype(np.uint8)


def _windowed(pixels: NDArray[np.generic], head: Dataset) -> NDArray[np.uint8]:
    """Gray in the file's window, or in the whole range of its stored bits."""
    bits = int(head.BitsStored)
    low = -(2 ** (bits - 1)) if int(head.PixelRepresentation) else 0
    if not (head.get("WindowWidth") or head.get("VOILUTSequence")):
        return _upper_bits(pixels.astype(np.int64) - low, bits)
    from pydicom.pixels.processing import apply_modality_lut, apply_voi_lut

    shown = np.asarray(apply_voi_lut(apply_modality_lut(pixels, head), head), np.float64)
    if head.get("VOILUTSequence"):
        limits = (0.0, 2.0 ** int(head.VOILUTSequence[0].LUTDescriptor[2]) - 1)
    else:
        slope, intercept = float(head.get("RescaleSlope", 1) or 1), float(head.get("RescaleIntercept", 0) or 0)
        limits = (low * slope + intercept, (low + 2**bits - 1) * slope + intercept)
    share = (shown - limits[0]) / (limits[1] - limits[0])
    return np.asarray(np.round(255 * share).clip(0, 255), np.uint8)
