"""The text detector looks only where strokes are, and finds what it finds in whole images."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.composed import Label, mucosa, write
from panendofm.imaging.frame_filters.text import _load_reader, find_text
from panendofm.imaging.text_detector import network
from panendofm.imaging.text_detector.strokes import strokes_like_letters
from panendofm.imaging.text_detector.windows import covering_boxes

Image = NDArray[np.uint8]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    cv2.setNumThreads(1)


def gray(image: Image) -> Image:
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)


@pytest.mark.parametrize("degrees", [0, 90])
@pytest.mark.parametrize("height_px", [6, 8, 12, 24])
@pytest.mark.parametrize("color", [(235, 235, 235), (20, 20, 20)])
def test_letters_are_strokes_side_by_side(height_px: int, degrees: int, color: tuple[int, int, int]) -> None:
    """Small ones in the image, large ones at half its size; over the whole line, so that a window holds it."""
    clean = mucosa(1)
    text = write(clean, Label("DOE, JANE", height_px, color=color, degrees=degrees), (180, 250))[0]
    found = strokes_like_letters(gray(text), network._EDGES)
    half = gray(cv2.resize(text, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
    found |= cv2.resize(strokes_like_letters(half, network._EDGES_AT_HALF), (text.shape[1], text.shape[0]))
    ink = (np.abs(text.astype(int) - clean).max(axis=2) > 30).astype(np.uint8)
    assert (found[ink > 0] > 0).mean() > 0.4
    far = cv2.dilate(ink, np.ones((81, 81), np.uint8)) == 0
    assert found[far].mean() < 0.02, "smooth mucosa has none"


def test_the_network_sees_little_of_an_image_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    run = network._run

    def counted(detector: Any, rgb: Image) -> Image:
        seen.append(rgb.shape[0] * rgb.shape[1])
        return run(detector, rgb)

    monkeypatch.setattr(network, "_run", counted)
    image = mucosa(3)
    assert find_text(image, 736) == [] and seen == []
    with_text, ink = write(image, Label("12/03/2014", 12), (150, 200))
    (place,) = find_text(with_text, 736)
    assert place.text == "12/03/2014"
    middle = np.argwhere(ink > 0.3)[:, ::-1].mean(axis=0)
    assert np.abs(place.outline.mean(axis=0) - middle).max() < 6
    width, height = network._enlarged(image.shape[1], image.shape[0], 736)
    *windows, whole = seen
    assert whole == width * height and 0 < sum(windows) < 0.15 * whole


def test_outlines_are_those_of_the_whole_image(monkeypatch: pytest.MonkeyPatch) -> None:
    image = mucosa(5)
    for text, at in (("Dr. NORDMANN", (60, 60)), ("14:32:07", (280, 330)), ("ID: 482910", (180, 200))):
        image = write(image, Label(text, 14), at)[0]
    reader = _load_reader()
    found, _ = network.detect_text(reader.text_det, image, 736)
    monkeypatch.setattr(network, "_marked", lambda mask, size: np.ones((size[1] // 32, size[0] // 32), np.uint8))
    whole, _ = network.detect_text(reader.text_det, image, 736)
    assert len(whole) == 3
    assert np.array_equal(found, whole)


def test_boxes_cover_all_marked_cells_and_leave_out_the_hollow_of_an_angle() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        marked = (cv2.resize(random.random((6, 7)).astype(np.float32), (22, 18)) > 0.6).astype(np.uint8)
        covered = np.zeros_like(marked)
        for left, top, right, bottom in covering_boxes(marked):
            assert 0 <= left < right <= 22 and 0 <= top < bottom <= 18
            covered[top:bottom, left:right] = 1
        assert (covered >= marked).all()
    angle = np.zeros((20, 20), np.uint8)
    angle[:, :2] = angle[-2:] = 1
    boxes = covering_boxes(angle)
    assert sum((right - left) * (bottom - top) for left, top, right, bottom in boxes) < 100, "of 400 in one box"
    assert covering_boxes(np.zeros((4, 4), np.uint8)) == []


def test_what_is_too_high_for_a_line_is_not_read() -> None:
    text = write(mucosa(2), Label("Age: 57", 24), (150, 200))[0]
    (read,) = find_text(text, 736)
    (unread,) = find_text(text, 736, highest_px=15)
    assert read.characters >= 4 and (unread.text, unread.confidence) == ("", 0.0)
    assert (read.outline == unread.outline).all()
