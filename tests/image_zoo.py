"""Image files that are legal but rare, with the pixels that every stage must see in them."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

HEIGHT, WIDTH = 48, 64


@dataclass(frozen=True)
class Rare:
    """`bits`: how far a value may be from the pixels (lossy kinds, conversions of color)."""

    name: bytes  # as the file system keeps it; not always UTF-8
    content: bytes
    pixels: NDArray[np.uint8]  # [H, W, 3]
    bits: int = 0


def scene(seed: int = 0) -> NDArray[np.uint8]:
    """A smooth colored image: lossy kinds keep it nearly as it is."""
    random = np.random.default_rng(seed)
    small = random.integers(30, 220, (4, 5, 3), np.uint8)
    return np.asarray(cv2.resize(small, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC), np.uint8)


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _gray(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(rgb).convert("L"))


def _three(gray: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(gray[:, :, None], 3, axis=2)


def tiff(rgb: NDArray[np.uint8], photometric: int, order: str = "<", planar: bool = False) -> bytes:
    """An uncompressed TIFF by hand: writers refuse the tags that CVC-ClinicDB's files have."""
    data = np.moveaxis(rgb, 2, 0).tobytes() if planar else rgb.tobytes()
    H, W, _ = rgb.shape
    strips = 3 if planar else 1
    header = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    entries: list[tuple[int, int, int, int]] = []
    after = 8 + 2 + 12 * 10 + 4
    bits_at, offsets_at, counts_at = after, after + 6, after + 6 + 12
    pixels_at = after + 6 + 24
    entries = [
        (256, 3, 1, W), (257, 3, 1, H), (258, 3, 3, bits_at), (259, 3, 1, 1), (262, 3, 1, photometric),
        (273, 4, strips, offsets_at if planar else pixels_at), (277, 3, 1, 3), (278, 3, 1, H),
        (279, 4, strips, counts_at if planar else len(data)), (284, 3, 1, 2 if planar else 1),
    ]  # fmt: skip
    body = struct.pack(f"{order}H", len(entries))
    for tag, kind, count, value in entries:
        short = kind == 3 and count == 1
        body += struct.pack(f"{order}HHI", tag, kind, count)
        body += struct.pack(f"{order}HH", value, 0) if short else struct.pack(f"{order}I", value)
    body += struct.pack(f"{order}I", 0) + struct.pack(f"{order}3H", 8, 8, 8)
    body += struct.pack(f"{order}3I", *(pixels_at + i * H * W for i in range(3))) + struct.pack(
        f"{order}3I", *[H * W] * 3
    )
    return header + body + data


def _oriented(rgb: NDArray[np.uint8], kind: str) -> bytes:
    exif = Image.Exif()
    exif[274] = 6  # a quarter turn, if anybody applied it
    return _saved(Image.fromarray(rgb), kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {}))


def zoo() -> list[Rare]:
    rgb = scene()
    image, gray = Image.fromarray(rgb), _gray(rgb)
    alpha = Image.fromarray(np.dstack([rgb, np.full((HEIGHT, WIDTH), 128, np.uint8)]))
    palette = image.quantize(32)
    of_palette = np.asarray(palette.convert("RGB"))
    one_bit = image.convert("1")
    wide = (gray.astype(np.uint16) << 8) | 0x7F
    wide_rgb = (rgb.astype(np.uint16) << 8) | 0x7F
    lossy = {"quality": 95, "subsampling": 0}
    cmyk = _saved(image.convert("CMYK"), "JPEG", quality=95)
    second = Image.fromarray(scene(1))
    png16 = cv2.imencode(".png", wide)[1].tobytes()
    rgb16 = cv2.imencode(".png", wide_rgb[:, :, ::-1])[1].tobytes()
    tiff16 = cv2.imencode(".tiff", wide)[1].tobytes()
    kinds: list[tuple[str, bytes, NDArray[np.uint8], int]] = [
        ("plain.jpg", _saved(image, "JPEG", **lossy), rgb, 16),
        ("progressive.jpg", _saved(image, "JPEG", progressive=True, **lossy), rgb, 16),
        ("subsampled.jpeg", _saved(image, "JPEG", quality=95, subsampling=2), rgb, 40),
        ("grey.jpg", _saved(image.convert("L"), "JPEG", quality=95), _three(gray), 16),
        ("cmyk.jpg", cmyk, rgb, 24),
        ("orientation.jpg", _oriented(rgb, "JPEG"), rgb, 40),
        ("odd-size.jpg", _saved(image.crop((0, 0, 63, 47)), "JPEG", **lossy), rgb[:47, :63], 16),
        ("comment.jpg", _saved(image, "JPEG", comment=b"\xff\xd8 a comment", **lossy), rgb, 16),
        ("trailing.jpg", _saved(image, "JPEG", **lossy) + b"\0" * 64, rgb, 16),
        ("restart.jpg", _saved(image, "JPEG", restart_marker_rows=1, **lossy), rgb, 16),
        ("optimized.jpg", _saved(image, "JPEG", optimize=True, **lossy), rgb, 16),
        ("dpi-icc.jpg", _saved(image, "JPEG", dpi=(72, 72), icc_profile=b"\0" * 128, **lossy), rgb, 16),
        ("plain.png", _saved(image, "PNG"), rgb, 0),
        ("alpha.png", _saved(alpha, "PNG"), rgb, 0),
        ("grey.png", _saved(image.convert("L"), "PNG"), _three(gray), 0),
        ("grey-alpha.png", _saved(alpha.convert("LA"), "PNG"), _three(gray), 0),
        ("palette.png", _saved(palette, "PNG"), of_palette, 0),
        ("palette-transparent.png", _saved(palette, "PNG", transparency=3), of_palette, 0),
        ("one-bit.png", _saved(one_bit, "PNG"), np.asarray(one_bit.convert("RGB")), 0),
        ("grey-16.png", png16, _three(gray), 0),
        ("rgb-16.png", rgb16, rgb, 0),
        ("orientation.png", _oriented(rgb, "PNG"), rgb, 0),
        ("animated.png", _saved(image, "PNG", save_all=True, append_images=[second]), rgb, 0),
        ("plain.tif", _saved(image, "TIFF"), rgb, 0),
        ("black-is-zero.tif", tiff(rgb, photometric=1), rgb, 0),
        ("black-is-zero-big-endian.tiff", tiff(rgb, photometric=1, order=">"), rgb, 0),
        ("planar.tif", tiff(rgb, photometric=2, planar=True), rgb, 0),
        ("lzw.tif", _saved(image, "TIFF", compression="tiff_lzw"), rgb, 0),
        ("deflate.tiff", _saved(image, "TIFF", compression="tiff_adobe_deflate"), rgb, 0),
        ("packbits.tif", _saved(image, "TIFF", compression="packbits"), rgb, 0),
        ("grey.tif", _saved(image.convert("L"), "TIFF"), _three(gray), 0),
        ("grey-16.tiff", tiff16, _three(gray), 0),
        ("cmyk.tif", _saved(image.convert("CMYK"), "TIFF"), rgb, 2),
        ("palette.tif", _saved(palette, "TIFF"), of_palette, 0),
        ("several-pages.tif", _saved(image, "TIFF", save_all=True, append_images=[second]), rgb, 0),
        ("plain.bmp", _saved(image, "BMP"), rgb, 0),
        ("palette.bmp", _saved(palette, "BMP"), of_palette, 0),
        ("grey.bmp", _saved(image.convert("L"), "BMP"), _three(gray), 0),
        ("lossless.webp", _saved(image, "WEBP", lossless=True), rgb, 0),
        ("alpha.webp", _saved(alpha, "WEBP", lossless=True, exact=True), rgb, 0),
        ("animated.webp", _saved(image, "WEBP", save_all=True, append_images=[second], lossless=True), rgb, 0),
        ("CAPITALS.JPG", _saved(image, "JPEG", **lossy), rgb, 16),
        ("CAPITALS.TIF", _saved(image, "TIFF"), rgb, 0),
        ("Mixed.PnG", _saved(image, "PNG"), rgb, 0),
        ("with space and 'quotes'.png", _saved(image, "PNG"), rgb, 0),
        ("ünïcödé 内视镜.png", _saved(image, "PNG"), rgb, 0),
    ]
    animals = [Rare(name.encode(), content, pixels, bits) for name, content, pixels, bits in kinds]
    return [*animals, Rare(b"latin-1-\xfc.png", _saved(image, "PNG"), rgb, 0)]


def write_zoo(folder: Path, names: bool = True) -> list[Rare]:
    """The files in a folder; without `names` those whose names are not UTF-8 are left out."""
    import os

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for animal in zoo():
        try:
            animal.name.decode()
        except UnicodeDecodeError:
            if not names:
                continue
        with open(os.path.join(os.fsencode(folder), animal.name), "wb") as stream:  # noqa: PTH118, PTH123
            stream.write(animal.content)
        written.append(animal)
    return written
