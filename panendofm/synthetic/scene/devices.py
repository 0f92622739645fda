"""The endoscopes' processors: the black border, the text burned into it, the teal position box.

A device is a layout in fractions of the image; `geometry_of` gives its pixels for one image size.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.synthetic.scene.randomness import Floats, generator
from panendofm.synthetic.truth import Box, FieldOfView, Geometry

Pixels = NDArray[np.uint8]

FULL_FRAME = "full_frame"  # the border was cut off before
CAPSULE = "capsule"

TEAL = (22, 166, 138)
TEXT_COLOR = (225, 225, 225)
# The border of a real image is not quite black.
BORDER_LEVEL = 4


def geometry_of(device: str, width: int, height: int) -> Geometry:
    """The layout of a device in an image of this size."""

    def box(left: float, top: float, right: float, bottom: float) -> Box:
        return (round(left * width), round(top * height), round(right * width), round(bottom * height))

    text: tuple[Box, ...]
    position_box = box(0.008, 0.69, 0.30, 0.985) if device.endswith("_box") else None
    match device.removesuffix("_box"):
        case "octagon_side_text":
            view = FieldOfView("octagon", box(0.25, 0.02, 0.99, 0.98), corner_px=round(0.13 * height))
            text = (box(0.01, 0.03, 0.24, 0.62),)
        case "octagon":
            corner = round(0.21 * height)
            view = FieldOfView("octagon", box(0, 0, 1, 1), corner_px=corner)
            text = ((2, 2, round(0.70 * corner), round(0.28 * corner)),)
        case "circle":
            view = _circle(0.60 * width, 0.5 * height, 0.49 * height, width, height)
            text = (box(0.01, 0.02, 0.25, 0.20),)
        case "wide_circle":
            view = _circle(0.5 * width, 0.5 * height, 0.58 * height, width, height)
            left = (0.5 * width - 0.45 * height) / width  # the circle's edge at 14% of the height
            text = (box(0.004, 0.01, max(0.06, left - 0.01), 0.12),)
        case "rectangle":
            view = FieldOfView("rectangle", box(0.25, 0.04, 0.985, 0.96))
            text = (box(0.01, 0.05, 0.24, 0.62),)
        case "capsule":
            view = FieldOfView("octagon", box(0.02, 0.02, 0.98, 0.98), corner_px=round(0.27 * height))
            text = (box(0.01, 0.01, 0.22, 0.07),)
        case "full_frame":
            view, text = FieldOfView("rectangle", (0, 0, width, height)), ()
        case _:
            raise ValueError(f"no device is called {device}")
    return Geometry(width, height, view, text, position_box)


def _circle(x: float, y: float, radius: float, width: int, height: int) -> FieldOfView:
    box = (
        max(0, int(np.floor(x - radius))),
        max(0, int(np.floor(y - radius))),
        min(width, int(np.ceil(x + radius))),
        min(height, int(np.ceil(y + radius))),
    )
    return FieldOfView("circle", box, circle=(round(x, 1), round(y, 1), round(radius, 1)))


class Overlay:
    """Puts what the scope sees into a device's frame: border, burned-in text with a running clock, teal box."""

    def __init__(self, geometry: Geometry, *key: object) -> None:
        self.geometry = geometry
        self._mask = geometry.field_of_view.mask(geometry.height, geometry.width)
        self._rng = generator("overlay", *key)
        self._patient = _patient(self._rng)
        self._clock = int(self._rng.integers(8 * 3600, 16 * 3600))
        self._background = np.full((geometry.height, geometry.width, 3), BORDER_LEVEL, np.uint8)
        self._drawn_second: int | None = None

    def compose(self, scene: Floats, seconds: float = 0.0) -> Pixels:
        """The finished frame, RGB, from the rendered scene [h, w, 3] in [0, 1]."""
        if int(seconds) != self._drawn_second:
            self._drawn_second = int(seconds)
            self._draw_text(int(seconds))
        left, top, right, bottom = self.geometry.field_of_view.box
        scaled = cv2.convertScaleAbs(scene, alpha=255.0)
        scaled = cv2.resize(scaled, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)
        frame = self._background.copy()
        cv2.copyTo(scaled, self._mask[top:bottom, left:right].astype(np.uint8), frame[top:bottom, left:right])
        if self.geometry.position_box is not None:
            self._draw_position_box(frame, self.geometry.position_box, seconds)
        return frame

    def _draw_text(self, seconds: int) -> None:
        now = self._clock + seconds
        clock = f"{now // 3600:02d}:{now // 60 % 60:02d}:{now % 60:02d}"
        self._background[:] = BORDER_LEVEL
        for box in self.geometry.text_boxes:
            height = box[3] - box[1]
            lines = [*self._patient, clock]
            if height < 0.3 * self.geometry.height:  # a corner has room for the date and the time
                lines = [self._patient[2], clock]
            _write_lines(self._background, box, lines)

    def _draw_position_box(self, frame: Pixels, box: Box, seconds: float) -> None:
        left, top, right, bottom = box
        frame[top:bottom, left:right] = TEAL
        height = bottom - top
        scale = height / 260
        cv2.putText(
            frame, "Pilot Cut", (left + 4, top + round(0.12 * height)), 0, scale, (230, 240, 235), 1, cv2.LINE_AA
        )
        along = np.linspace(0, 1, 24)
        sway = 0.06 * np.sin(2 * np.pi * along * 1.3 + 0.4 * seconds + self._clock)
        bend = 0.25 * np.sin(np.pi * along * (1.2 + 0.5 * np.sin(self._clock)))
        x = left + (right - left) * (0.55 + sway + bend * 0.8)
        y = bottom - height * (0.04 + 0.6 * along)
        points = np.stack([x, y], axis=1).round().astype(np.int32)
        cv2.polylines(frame, [points], False, (30, 60, 50), max(1, round(height / 60)), cv2.LINE_AA)
        cv2.rectangle(frame, (left, top), (right - 1, bottom - 1), (8, 20, 18), 1)


def _patient(rng: np.random.Generator) -> list[str]:
    """Made-up patient data, in the form that processors print it."""
    surname = ("DOE", "ROE", "MUSTER", "NORDMANN", "SAMPLE", "TESTER", "BLOGGS")[rng.integers(7)]
    first = ("A.", "B.", "JANE", "JOHN", "ERIKA", "KARI", "OLA")[rng.integers(7)]
    return [
        f"ID: {rng.integers(10**5, 10**6)}",
        f"{surname}, {first}",
        f"{rng.integers(1, 29):02d}/{rng.integers(1, 13):02d}/{rng.integers(2009, 2021)}",
        f"Sex:{'MF'[rng.integers(2)]} Age:{rng.integers(20, 90)}",
        f"CVP:{rng.integers(1, 40)} {'ABC'[rng.integers(3)]}{rng.integers(1, 9)}",
        "Physician:",
        f"DR. {('WHO', 'NO', 'X', 'DEMO')[rng.integers(4)]}",
    ]


def _write_lines(frame: Pixels, box: Box, lines: list[str]) -> None:
    """Text that fills the box and never leaves it."""
    left, top, right, bottom = box
    pitch = min((bottom - top) / len(lines), 0.14 * (right - left) + 6)
    widest = max(cv2.getTextSize(line, cv2.FONT_HERSHEY_SIMPLEX, 1.0, 1)[0][0] for line in lines)
    scale = min((right - left - 3) / (widest + 4), pitch / 32)
    area = frame[top:bottom, left:right]
    for number, line in enumerate(lines):
        base = (1, round((number + 0.75) * pitch))
        cv2.putText(area, line, base, cv2.FONT_HERSHEY_SIMPLEX, scale, TEXT_COLOR, 1, cv2.LINE_AA)
