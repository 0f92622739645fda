"""The field of view on other grounds than black, beside another view, and under a label."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.composed import GROUNDS, bordered, corner_label, mucosa, octagon, recorder_screen, side_by_side
from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.field_of_view import FieldOfView, detect_field_of_view

Image = NDArray[np.uint8]
CONFIG = FieldOfViewConfig()


def found(*frames: Image) -> FieldOfView:
    view = detect_field_of_view(frames, CONFIG)
    assert view is not None
    return view


def is_near(view: FieldOfView, box: tuple[int, ...], within_px: int = 5) -> bool:
    return max(abs(a - b) for a, b in zip(view.box, box, strict=True)) <= within_px


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_recorders_screen_is_cropped_to_its_view(ground: str) -> None:
    for seed in range(3):
        screen, box = recorder_screen(octagon(mucosa(seed)) if seed else mucosa(seed), GROUNDS[ground], seed)
        view = found(screen)
        assert is_near(view, box), (view.box, box)
        assert view.shape == ("octagon" if seed else "rectangle")


def test_in_a_video_the_ground_is_what_stays_plain() -> None:
    screens = [recorder_screen(mucosa(seed), GROUNDS["blue"], 1) for seed in range(3)]
    assert is_near(found(*(screen for screen, _ in screens)), screens[0][1])


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_white_borders_go_also_around_a_screen(share: float) -> None:
    framed, box = bordered(octagon(mucosa(2)), (255, 255, 255), share)
    assert is_near(found(framed), box)
    screen, (left, top, right, bottom) = recorder_screen(mucosa(3), GROUNDS["blue"], 3)
    framed, (x, y, _, _) = bordered(screen, (255, 255, 255), share)
    assert is_near(found(framed), (left + x, top + y, right + x, bottom + y), 8)


def test_an_overexposed_view_is_no_ground() -> None:
    bright = np.clip(mucosa(4).astype(int) + 120, 0, 255).astype(np.uint8)
    assert is_near(found(bright), (0, 0, 480, 400))


@pytest.mark.parametrize("gap", [0, 6, 40])
@pytest.mark.parametrize("shape", ["octagon", "rectangle"])
def test_of_two_views_side_by_side_the_left_one_is_taken(gap: int, shape: str) -> None:
    one, other = (octagon(mucosa(s)) if shape == "octagon" else mucosa(s) for s in (5, 6))
    other = np.clip(other * np.array([0.6, 1.2, 1.3]), 0, 255).astype(np.uint8)  # narrow band
    assert is_near(found(side_by_side(one, other, gap)), (0, 0, 480, 400))


def test_a_dark_lumen_from_edge_to_edge_does_not_halve_a_view() -> None:
    view = np.zeros((400, 480, 3), np.uint8)
    cv2.circle(view, (240, 200), 190, (190, 110, 90), -1)
    view[:, 225:255] = 0
    left, _, right, _ = found(view).box
    assert left <= 56 and right >= 424


@pytest.mark.parametrize("color", [(200, 200, 205), (0, 0, 0), (30, 60, 140)], ids=["grey", "black", "blue"])
@pytest.mark.parametrize("shape", ["octagon", "rectangle"])
def test_a_label_in_a_corner_is_cut_out(color: tuple[int, int, int], shape: str) -> None:
    view = octagon(mucosa(7)) if shape == "octagon" else mucosa(7)
    labeled, (_, _, right, bottom) = corner_label(view, color, 1)
    mask = found(labeled).mask() > 0
    assert mask[:bottom, :right].mean() < 0.05
    unlabeled = found(view).mask() > 0
    elsewhere = unlabeled.copy()
    elsewhere[: bottom + 12, : right + 12] = False
    assert (mask & elsewhere).sum() >= 0.97 * elsewhere.sum()
    for turn in (np.s_[::-1], np.s_[:, ::-1]):
        assert (found(np.ascontiguousarray(labeled[turn])).mask() > 0).mean() == pytest.approx(mask.mean(), abs=0.01)


def test_the_label_stays_cut_out_in_the_cropped_and_scaled_view() -> None:
    labeled, (_, _, right, bottom) = corner_label(mucosa(8), (200, 200, 205), 2)
    view = found(labeled).cropped_to((240, 200))
    assert (view.mask()[: bottom // 2 - 1, : right // 2 - 1] > 0).mean() < 0.05


def test_views_without_a_label_keep_their_corners() -> None:
    for seed in range(6):
        assert len(found(mucosa(seed)).labels) == 0 and len(found(octagon(mucosa(seed))).labels) == 0
