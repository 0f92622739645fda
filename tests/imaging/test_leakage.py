"""The guard on drawn images: every kind of copy that it promises to find, and images that are no copies."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.imaging.leakage import Guard, LeakageConfig, Thumbnail, build_guard, compare, thumbnail_of
from panendofm.imaging.leakage.guard import guarded_image
from panendofm.imaging.leakage.views import (
    SYMMETRIES,
    WINDOWS,
    after,
    from_pixels,
    in_pixels,
    inverse,
    seen_through,
    turned,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from benchmarks.guard import CHANGES

Image = NDArray[np.uint8]


def drawn(seed: int, side: int = 320) -> Image:
    """Folds, spots and vessels: detail of several sizes, as mucosa has."""
    random = np.random.default_rng(seed)
    image = np.full((side, side, 3), (150, 80, 60), np.float32)
    for cells in (4, 9, 20, 45):
        small = random.normal(0, 60 / cells**0.35, (cells, cells, 3)).astype(np.float32)
        image += cv2.resize(small, (side, side), interpolation=cv2.INTER_CUBIC)
    return np.clip(image, 0, 255).astype(np.uint8)


def thumbnail(image: Image) -> Thumbnail:
    """What is black lies outside the field of view, as the screens would find."""
    return thumbnail_of(image, np.where(image.any(axis=2), 255, 0).astype(np.uint8))


@pytest.fixture(scope="module")
def guard() -> Guard:
    return build_guard([guarded_image(f"set/{n}", f"{n:064x}", thumbnail(drawn(n))) for n in range(24)])


@pytest.mark.parametrize("name", CHANGES)
def test_changed_copies_are_found(name: str, guard: Guard) -> None:
    for number in range(0, 24, 8):
        match = guard.match(thumbnail(CHANGES[name](drawn(number))), LeakageConfig())
        assert match is not None and match.number == number, (name, number)
        assert match.sha256 == f"{number:064x}"


def test_other_images_are_left_alone(guard: Guard) -> None:
    assert [guard.match(thumbnail(drawn(seed)), LeakageConfig()) for seed in range(100, 120)] == [None] * 20
    assert build_guard([]).match(thumbnail(drawn(0)), LeakageConfig()) is None


def test_views_are_maps_that_can_be_joined_and_undone() -> None:
    assert len(SYMMETRIES) == 8 and len({view.tobytes() for view in SYMMETRIES}) == 8
    corners = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], float)
    for view in (*WINDOWS, *SYMMETRIES):
        there = np.column_stack([corners @ view.T, np.ones(4)])
        assert np.allclose(there @ inverse(view).T, corners[:, :2])
        assert np.allclose(after(view, inverse(view)), SYMMETRIES[0])
        assert np.allclose(from_pixels(in_pixels(view, 64, 64), 64), view, atol=1e-5)
    for view in SYMMETRIES:  # the square's corners stay its corners
        assert {tuple(p) for p in np.round(corners @ view.T, 9)} == {(0, 0), (1, 0), (0, 1), (1, 1)}


def test_a_turned_image_is_what_is_seen_through_the_symmetry() -> None:
    image = np.random.default_rng(0).random((9, 9)).astype(np.float32)
    for symmetry in SYMMETRIES:
        assert np.allclose(turned(image, symmetry), seen_through(image, symmetry, 9), atol=1e-6)


def test_vectors_are_those_of_each_view_alone() -> None:
    """All views at once, and the symmetries from one of them, as far as single precision goes."""
    one = thumbnail(drawn(3)[:, 40:])
    views = [*WINDOWS, *SYMMETRIES]
    vectors = np.concatenate([compare.descriptors_of_windows(one), compare.descriptors_of_symmetries(one)])
    for view, vector in zip(views, vectors, strict=True):
        gray, mask = compare._seen(one, view, 32)
        detail = compare._detail(gray, mask, 0.2 * 32, 4.0)
        alone = cv2.resize(detail, (8, 8), interpolation=cv2.INTER_AREA).reshape(-1)
        assert np.allclose(vector, alone / np.linalg.norm(alone), atol=1e-4)
