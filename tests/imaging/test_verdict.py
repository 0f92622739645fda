"""The verdict on an image: every reason is found where it is drawn in, and nowhere else."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.clean import hashed_layout
from panendofm.imaging.frame_filters.config import QualityConfig, VerdictConfig
from panendofm.imaging.frame_filters.quality import drop_reason, measure, reasons_of
from panendofm.imaging.frame_filters.verdict import ImageQuality, judge

Image = NDArray[np.uint8]


def mucosa() -> Image:
    """Reddish tissue with vessels and folds, in many shades."""
    random = np.random.default_rng(0)
    coarse = cv2.resize(random.normal(0, 22, (9, 9)).astype(np.float32), (288, 288), interpolation=cv2.INTER_CUBIC)
    fine = cv2.GaussianBlur(random.normal(0, 40, (288, 288)).astype(np.float32), (0, 0), 1.0)
    shade = coarse + fine
    image = np.stack([170 + shade, 105 + 0.9 * shade, 90 + 0.8 * shade], axis=2)
    for start in range(20, 280, 40):
        cv2.line(image, (start, 0), (288 - start, 288), (120, 40, 40), 1)
    return np.clip(image, 0, 255).astype(np.uint8)


def verdict(image: Image, **config: bool) -> ImageQuality:
    return judge(image, hashed_layout(image), VerdictConfig(**config))


def test_a_good_image_has_no_reasons() -> None:
    quality = verdict(mucosa())
    assert quality.reasons == () and not quality.poor
    assert quality.mucosa > 0.95


def _with_spots(image: Image) -> Image:
    result = image.copy()
    for x in range(30, 280, 44):
        for y in range(30, 280, 44):
            cv2.circle(result, (x, y), 9, (255, 255, 255), -1)
    return result


def _with_lumen(image: Image) -> Image:
    result = image.copy()
    cv2.circle(result, (144, 144), 125, (12, 6, 5), -1)
    return result


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (cv2.GaussianBlur(mucosa(), (0, 0), 6), "blurred"),
        ((mucosa() // 4).astype(np.uint8), "too_dark"),
        (np.clip(mucosa().astype(int) + 130, 0, 255).astype(np.uint8), "washed_out"),
        (_with_spots(mucosa()), "glare"),
        (_with_lumen(mucosa()), "little_mucosa"),
    ],
)
def test_every_reason_is_found(image: Image, reason: str) -> None:
    assert reason in verdict(image).reasons


def test_a_drawing_is_no_endoscopy() -> None:
    drawing = np.full((288, 288, 3), 200, np.uint8)
    cv2.rectangle(drawing, (40, 40), (200, 200), (30, 60, 200), -1)
    assert "not_endoscopy" in verdict(drawing).reasons


def test_text_is_looked_for_when_it_is_asked_for() -> None:
    image = cv2.resize(mucosa(), (640, 640), interpolation=cv2.INTER_CUBIC)
    cv2.putText(image, "PATIENT 1234", (120, 320), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (255, 255, 255), 3)
    assert "text" not in verdict(image).reasons
    assert "text" in verdict(image, text=True).reasons


def test_the_pipeline_and_the_atlas_measure_the_same() -> None:
    """One measure with two thresholds: what the pipeline drops is poor, and not all that is poor is dropped."""
    for image in (mucosa(), cv2.GaussianBlur(mucosa(), (0, 0), 6), (mucosa() // 7).astype(np.uint8)):
        layout = hashed_layout(image)
        cropped, visible = (
            (image, np.full(image.shape[:2], 255, np.uint8))
            if layout is None
            else (
                layout.crop(image),
                layout.visible,
            )
        )
        measured = measure(cropped, visible)
        judged = judge(image, layout, VerdictConfig())
        assert (judged.brightness, judged.washed_out, judged.sharpness) == (
            measured.brightness, measured.washed_out, measured.sharpness,
        )  # fmt: skip
        dropped = drop_reason(measured, QualityConfig())
        assert dropped is None or dropped in judged.reasons
        assert dropped == next(iter(reasons_of(measured, QualityConfig())), None)
