"""Distributions side by side: a smooth outline with its middle half and median."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from panendofm.reports.charts.axes import Frame, Scale
from panendofm.reports.charts.svg import GRID, MUTED, color_of, drawing, element, line, points, text

_COLUMN_PX = 64
_STEPS = 64
# Ratings are whole numbers, or means of few: a narrower kernel would show single spikes.
_LEAST_BANDWIDTH = 0.12


@dataclass(frozen=True)
class Violin:
    """All values of one contestant. A hollow one is a group of people."""

    name: str
    values: Sequence[float]
    hollow: bool = False


def violin_chart(title: str, violins: Sequence[Violin], low: float, high: float, *, y_label: str = "") -> Markup:
    """Nothing where no contestant has a value. Names stand below, the number of values in the tooltip."""
    shown = [violin for violin in violins if len(violin.values)]
    if not shown:
        return Markup("")
    frame = Frame(width=70 + _COLUMN_PX * len(shown), height=320, bottom=84, left=48, right=12)
    y = Scale(low, high, frame.height - frame.bottom, frame.top)
    parts = [text(title, frame.left, 16, 13, font_weight=600)]
    for tick in y.ticks():
        parts.append(line(frame.left, y(tick), frame.width - frame.right, y(tick), GRID))
        parts.append(text(f"{tick:g}", frame.left - 6, y(tick) + 4, text_anchor="end", fill=MUTED))
    if y_label:
        middle = (frame.top + frame.height - frame.bottom) / 2
        parts.append(text(y_label, 14, middle, text_anchor="middle", transform=f"rotate(-90 14 {middle:.1f})"))
    for number, violin in enumerate(shown):
        center = frame.left + (number + 0.5) * _COLUMN_PX
        parts += _violin(violin, center, y, color_of(number))
        floor = frame.height - frame.bottom + 12
        turn = f"rotate(-40 {center:.1f} {floor:.1f})"
        name = violin.name if len(violin.name) <= 18 else f"{violin.name[:17]}…"
        parts.append(text(name, center, floor, 10, text_anchor="end", transform=turn))
    return drawing(title, frame.width, frame.height, *parts)


def _violin(violin: Violin, center: float, y: Scale, color: str) -> list[Markup]:
    values = np.asarray(violin.values, np.float64)
    width = _bandwidth(values)
    grid = np.linspace(max(y.low, values.min() - 2 * width), min(y.high, values.max() + 2 * width), _STEPS)
    density = _density(values, grid, width)
    half = 0.45 * _COLUMN_PX * density / density.max()
    right = [(center + w, y(v)) for w, v in zip(half, grid, strict=True)]
    left = [(center - w, y(v)) for w, v in zip(half, grid, strict=True)]
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    label = element("title", f"{violin.name}: n {len(values)}, mean {values.mean():.3f}, median {median:g}")
    outline = element(
        *("polygon", label),
        points=points([*right, *reversed(left)]),
        fill="none" if violin.hollow else color,
        fill_opacity="0.25",
        stroke=color,
    )
    return [
        outline,
        line(center, y(first), center, y(third), color, stroke_width=5),
        element("circle", cx=float(center), cy=float(y(median)), r=3.5, fill="#fff", stroke=color),
    ]


def _bandwidth(values: NDArray[np.float64]) -> float:
    """Silverman's rule."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return max(0.9 * spread / math.pow(len(values), 0.2), _LEAST_BANDWIDTH)


def _density(values: NDArray[np.float64], grid: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """A Gaussian kernel at the points of the grid."""
    away = (grid[:, None] - values[None, :]) / width  # [steps, N]
    return np.asarray(np.exp(-0.5 * away**2).sum(axis=1) / (len(values) * width * math.sqrt(2 * math.pi)), np.float64)
