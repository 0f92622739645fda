"""Perceptual hashes tell copies from other images."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.imaging.image_hash import HASH_BYTES, hamming_distances, perceptual_hash


def draw_image(seed: int) -> NDArray[np.uint8]:
    """Smooth color blobs with some detail, as a mucosa has."""
    random = np.random.default_rng(seed)
    coarse = cv2.resize(
        random.uniform(40, 220, (6, 8, 3)).astype(np.float32), (320, 256), interpolation=cv2.INTER_CUBIC
    )
    fine = cv2.resize(
        random.uniform(-25, 25, (40, 50, 3)).astype(np.float32), (320, 256), interpolation=cv2.INTER_CUBIC
    )
    return np.clip(coarse + fine, 0, 255).astype(np.uint8)


def distance(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> int:
    return int(hamming_distances(perceptual_hash(a)[None], perceptual_hash(b)[None])[0, 0])


def changed(image: NDArray[np.uint8], how: str) -> NDArray[np.uint8]:
    if how == "jpeg":
        return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 40])[1], cv2.IMREAD_COLOR)
    if how == "half":
        return cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    if how == "darker":
        return (image * 0.85).astype(np.uint8)
    return np.clip(image.astype(np.float32) * 1.15, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("how", ["jpeg", "half", "darker", "brighter"])
def test_copies_stay_close_and_others_far(how: str) -> None:
    images = [draw_image(seed) for seed in range(12)]
    own = [distance(image, changed(image, how)) for image in images]
    other = [distance(images[i], changed(images[i - 1], how)) for i in range(12)]
    assert max(own) < 24
    assert min(other) > 80


def test_hash_has_the_documented_form() -> None:
    value = perceptual_hash(draw_image(0))
    assert value.shape == (HASH_BYTES,) and value.dtype == np.uint8
    ones = int(np.unpackbits(value).sum())
    assert ones == HASH_BYTES * 4, "a median threshold sets half of the bits"


def test_gray_and_color_forms_agree() -> None:
    gray = cv2.cvtColor(draw_image(1), cv2.COLOR_RGB2GRAY)
    assert distance(gray, np.repeat(gray[..., None], 3, axis=2)) <= 2


def test_distances_equal_a_plain_count_of_bits() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(0, 256, (700, 13), np.uint8), random.integers(0, 256, (9, 13), np.uint8)
    plain = (np.unpackbits(a, axis=1)[:, None] != np.unpackbits(b, axis=1)[None]).sum(-1)
    assert np.array_equal(hamming_distances(a, b), plain)


def test_hashes_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="equal length"):
        hamming_distances(np.zeros((2, 8), np.uint8), np.zeros((2, 16), np.uint8))
