"""Blur is told from light: a dark or pale image may be crisp, and a bright one blurred."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import QualityConfig
from panendofm.imaging.frame_filters.quality import drop_reason, measure

INSIDE = np.full((360, 480), 255, np.uint8)


def mucosa(seed: int) -> NDArray[np.float32]:
    """A smooth wall [360, 480, 3] with a few vessels and a fold: little detail, but that is crisp."""
    random = np.random.default_rng(seed)
    wall = cv2.resize(random.uniform(-30, 30, (5, 6)).astype(np.float32), (480, 360), interpolation=cv2.INTER_CUBIC)
    for _ in range(12):
        points = np.cumsum(random.normal(0, 22, (8, 2)), axis=0) + random.uniform((40, 40), (440, 320))
        cv2.polylines(wall, [np.round(points * 8).astype(np.int32)], False, float(random.uniform(-45, -20)), 2, 16, 3)
    cv2.circle(wall, (300, 150), 90, 25.0, 5, cv2.LINE_AA)
    return np.repeat(wall[..., None], 3, axis=2)


def lit(wall: NDArray[np.float32], mean: float, contrast: float, seed: int = 0) -> NDArray[np.uint8]:
    noise = np.random.default_rng(seed).normal(0, 1, wall.shape)
    image = np.clip(mean + contrast * wall + noise, 0, 255).astype(np.uint8)
    return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])[1], cv2.IMREAD_COLOR)


LIGHTS = {"dark": (45.0, 0.5), "plain": (120.0, 1.0), "bright": (200.0, 0.8), "bright and pale": (205.0, 0.35)}


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("seed", range(3))
def test_blur_is_told_from_light(light: str, seed: int) -> None:
    wall = mucosa(seed)
    reasons = [
        drop_reason(measure(lit(image, *LIGHTS[light]), INSIDE), QualityConfig())
        for image in (wall, cv2.GaussianBlur(wall, (0, 0), 9))
    ]
    assert reasons == [None, "blurred"]


def test_sharpness_does_not_follow_the_light() -> None:
    crisp = [measure(lit(mucosa(0), *light), INSIDE).sharpness for light in LIGHTS.values()]
    blurred = [
        measure(lit(cv2.GaussianBlur(mucosa(0), (0, 0), 7), *light), INSIDE).sharpness for light in LIGHTS.values()
    ]
    assert min(crisp) > 1.5 * max(blurred), "whatever the light, what is crisp is above what is blurred"
