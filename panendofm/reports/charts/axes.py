"""Scales from numbers to pixels, and the frame that a chart is drawn in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports.charts.svg import GRID, MUTED, line, text

_MARGIN = 0.04
# Powers of ten that a logarithmic axis names; with more, every second or third.
_MOST_POWERS = 7


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on pixels from `start` to `end`; logarithmic if asked for."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        bottom = self._position(self.low)
        share = (self._position(value) - bottom) / (self._position(self.high) - bottom)
        return self.start + share * (self.end - self.start)

    def _position(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first_power = math.ceil(math.log10(self.low) - 1e-9)
            last_power = math.floor(math.log10(self.high) + 1e-9)
            stride = 1 + (last_power - first_power) // _MOST_POWERS
            return [10.0**power for power in range(first_power, last_power + 1, stride)]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def scale_of(
    values: Sequence[float], start: float, end: float, logarithmic: bool = False, include: Sequence[float] = ()
) -> Scale:
    """Holds all finite values and `include`, with a small margin; a logarithmic scale has whole powers of ten."""
    known = [value for value in (*values, *include) if math.isfinite(value) and (value > 0 or not logarithmic)]
    if not known:
        known = [1.0] if logarithmic else [0.0]
    low = min(known)
    high = max(known)
    if logarithmic:
        low_power = math.floor(math.log10(low) + 1e-9)
        high_power = max(math.ceil(math.log10(high) - 1e-9), low_power + 1)
        return Scale(10.0**low_power, 10.0**high_power, start, end, True)
    if low == high:
        spread = abs(low) * 0.1 or 1.0
        return Scale(low - spread, high + spread, start, end)
    margin = _MARGIN * (high - low)
    # A limit that was asked for is exact: shares end at 0 and 1.
    bottom = low if low in include else low - margin
    top = high if high in include else high + margin
    return Scale(bottom, top, start, end)


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    for factor in (1, 2, 5):
        if factor * power >= step * (1 - 1e-9):
            return factor * power
    return 10 * power


def tick_label(value: float) -> str:
    """As short as can be: «20,000», «0.8», «1e-05»; zero is plain although ticks are sums."""
    if abs(value) < 1e-12:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True)
class Frame:
    """The plot area inside a drawing of `width` × `height`."""

    width: float = 480
    height: float = 300
    left: float = 56
    right: float = 16
    top: float = 28
    bottom: float = 44

    def x_scale(self, values: Sequence[float], logarithmic: bool = False, include: Sequence[float] = ()) -> Scale:
        return scale_of(values, self.left, self.width - self.right, logarithmic, include)

    def y_scale(self, values: Sequence[float], logarithmic: bool = False, include: Sequence[float] = ()) -> Scale:
        return scale_of(values, self.height - self.bottom, self.top, logarithmic, include)

    def axes(self, x: Scale, y: Scale | None, x_label: str = "", y_label: str = "", title: str = "") -> list[Markup]:
        """Grid, tick labels, axis labels and title; without `y` the vertical axis is the caller's."""
        floor = self.height - self.bottom
        parts = [line(self.left, floor, self.width - self.right, floor, MUTED)]
        for tick in x.ticks():
            parts.append(line(x(tick), self.top, x(tick), floor))
            parts.append(text(tick_label(tick), x(tick), floor + 15, text_anchor="middle", fill=MUTED))
        if y is not None:
            for tick in y.ticks():
                parts.append(line(self.left, y(tick), self.width - self.right, y(tick), GRID))
                parts.append(text(tick_label(tick), self.left - 6, y(tick) + 4, text_anchor="end", fill=MUTED))
        middle = (self.left + self.width - self.right) / 2
        if x_label:
            parts.append(text(x_label, middle, self.height - 8, text_anchor="middle"))
        if y_label:
            height = (self.top + floor) / 2
            turn = f"rotate(-90 14 {height:.1f})"
            parts.append(text(y_label, 14, height, text_anchor="middle", transform=turn))
        if title:
            parts.append(text(title, self.left, 16, 13, font_weight=600))
        return parts
