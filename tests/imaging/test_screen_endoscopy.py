"""Is it endoscopy: composed images of other things, tissue in all its colors."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.composed import FOREIGN, mucosa, octagon, opening
from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.endoscopy import is_endoscopy, measure_colors
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view

Image = NDArray[np.uint8]


def passes(image: Image) -> bool:
    view = detect_field_of_view([image], FieldOfViewConfig())
    return view is not None and is_endoscopy(measure_colors(image, view.mask()))


@pytest.mark.parametrize("name", FOREIGN)
def test_other_images_do_not_pass(name: str) -> None:
    assert [seed for seed in range(5) if passes(FOREIGN[name](seed))] == []


def tinted(image: Image, factors: tuple[float, float, float]) -> Image:
    return np.clip(image * np.array(factors), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(
    "factors",
    [(1, 1, 1), (0.35, 1.3, 1.6), (0.5, 1.4, 1.2), (1.0, 1.5, 0.6), (1.4, 1.3, 1.2)],
    ids=["white light", "blue dye", "narrow band", "capsule", "pale"],
)
def test_tissue_passes_in_any_light(factors: tuple[float, float, float]) -> None:
    images = [opening(octagon(mucosa(seed)), (240, 200), 40, seed) for seed in range(3)]
    assert all(passes(tinted(image, factors)) for image in images)


def test_a_gray_image_of_tissue_passes() -> None:
    gray = cv2.cvtColor(mucosa(1), cv2.COLOR_RGB2GRAY)
    assert passes(np.repeat(gray[..., None], 3, axis=2))
