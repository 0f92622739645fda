"""The one reader of images: rare but legal kinds, and damage."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from panendofm.imaging.images import UnreadableImageError, decode_image, is_image, open_image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from image_zoo import Rare, scene, zoo


@pytest.mark.parametrize("rare", zoo(), ids=lambda rare: rare.name.decode(errors="replace"))
def test_rare_kinds_are_read_as_they_look(rare: Rare) -> None:
    pixels = decode_image(rare.content, "x")
    assert pixels.shape == rare.pixels.shape and pixels.dtype == np.uint8
    difference = np.abs(pixels.astype(int) - rare.pixels.astype(int))
    assert difference.max() <= rare.bits, rare.name
    assert is_image(rare.name.decode(errors="surrogateescape"))


def jpeg(seed: int = 0, side: int = 256) -> bytes:
    stream = io.BytesIO()
    noise = np.random.default_rng(seed).integers(0, 30, (side, side, 3), np.uint8)
    image = np.asarray(Image.fromarray(scene(seed)).resize((side, side))) // 2 + noise
    Image.fromarray(image.astype(np.uint8)).save(stream, "JPEG", quality=88)
    return stream.getvalue()


def test_half_destroyed_images_are_refused() -> None:
    """A decoder fills what it can't read with gray; only its warnings tell."""
    for seed in range(20):
        whole = jpeg(seed)
        zeroed = whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2)
        for damaged in (zeroed, whole[: len(whole) * 2 // 3], whole[: len(whole) // 2] + b"\xff\xd9"):
            with pytest.raises(UnreadableImageError, match=r"cannot read the image x\.jpg: .*; replace or remove"):
                decode_image(damaged, "x.jpg")
    for kind in ("PNG", "TIFF", "BMP", "WEBP"):
        stream = io.BytesIO()
        Image.fromarray(scene()).save(stream, kind)
        with pytest.raises(UnreadableImageError, match="x"):
            decode_image(stream.getvalue()[:-200], "x")


def test_flipped_bits_are_noticed_where_the_decoder_can() -> None:
    random = np.random.default_rng(0)
    noticed = 0
    for seed in range(60):
        damaged = bytearray(jpeg(seed))
        for place in random.integers(700, len(damaged) - 2, 16):
            damaged[place] ^= 1 << int(random.integers(8))
        try:
            decode_image(bytes(damaged), "x")
        except UnreadableImageError:
            noticed += 1
    assert noticed >= 30  # the others still are valid codes: a JPEG has no checksum


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"plain text", "not an image"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "pointer of Git LFS.*git lfs pull"),
        (b"\xff\xd8\xff" + b"\0" * 40, "cannot read"),
        (b"II*\0" + b"\xff" * 40, "cannot read"),
    ],
)
def test_what_is_no_image_is_named(content: bytes, problem: str) -> None:
    with pytest.raises(UnreadableImageError, match=problem):
        decode_image(content, "x.jpg")


def test_a_image_that_promises_too_much_is_refused_before_it_is_decoded() -> None:
    stream = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(stream, "PNG")
    with pytest.raises(UnreadableImageError, match="12000 × 12000 pixels"):
        decode_image(stream.getvalue(), "huge.png")
    stream = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(stream, "PNG")  # Pillow's own limit comes first
    with pytest.raises(UnreadableImageError, match="400000000 pixels"):
        decode_image(stream.getvalue(), "huge.png")
    assert decode_image(jpeg(), "x", max_pixels=65536).shape == (256, 256, 3)
    with pytest.raises(UnreadableImageError, match="256 × 256"):
        decode_image(jpeg(), "x", max_pixels=65535)


def test_errors_name_files_and_never_objects(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no")
    with pytest.raises(UnreadableImageError, match=r"bad\.png"):
        open_image(tmp_path / "bad.png")
    with pytest.raises(UnreadableImageError, match=r"missing\.png: it does not exist"):
        open_image(tmp_path / "missing.png")
    for source in (io.BytesIO(b"no"), (tmp_path / "bad.png").open("rb")):
        with source, pytest.raises(UnreadableImageError) as caught:
            open_image(source)
        assert "object at" not in str(caught.value)
