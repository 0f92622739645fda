"""Curves over a common x."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports.charts.axes import Frame, Scale
from panendofm.reports.charts.svg import color_of, drawing, element, legend, line, points

# Beyond this many points, dots hide the curve.
_MOST_DOTS = 40


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` are a band around it, or empty. Values that are not finite leave a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str = "step",
    y_label: str = "",
    marked_x: float | None = None,
    logarithmic: bool = False,
    diagonal: bool = False,
) -> Markup:
    """`marked_x` draws a vertical line, for a chosen checkpoint. A logarithmic chart leaves out what is not above 0.

    `diagonal` is for ROC curves: both axes from 0 to 1, with the line of chance.
    """
    frame = Frame(width=360, height=360) if diagonal else Frame()
    limits = (0.0, 1.0) if diagonal else ()
    x = frame.x_scale([value for curve in series for value in curve.x], include=limits)
    heights = [value for curve in series for value in (*curve.y, *curve.low, *curve.high)]
    y = frame.y_scale(heights, logarithmic, include=limits)
    parts = frame.axes(x, y, x_label, y_label, title)
    if diagonal:
        parts.append(line(x(0), y(0), x(1), y(1), "#999", stroke_dasharray="3 4"))
    for number, curve in enumerate(series):
        parts.extend(_curve(curve, x, y, color_of(number)))
    if marked_x is not None:
        parts.append(
            line(x(marked_x), frame.top, x(marked_x), frame.height - frame.bottom, "#333", stroke_dasharray="5 4")
        )
    chart = drawing(title, frame.width, frame.height, *parts)
    return chart + legend([curve.name for curve in series]) if len(series) > 1 else chart


def _curve(curve: Series, x: Scale, y: Scale, color: str) -> list[Markup]:
    parts = []
    if curve.low:
        upper = [(x(a), y(b)) for a, b in zip(curve.x, curve.high, strict=True) if _drawable(b, y)]
        lower = [(x(a), y(b)) for a, b in zip(curve.x, curve.low, strict=True) if _drawable(b, y)]
        parts.append(element("polygon", points=points([*upper, *reversed(lower)]), fill=color, fill_opacity="0.15"))
    for piece in _pieces(curve, y):
        path = [(x(a), y(b)) for a, b in piece]
        parts.append(element("polyline", points=points(path), fill="none", stroke=color, stroke_width="1.6"))
        if len(curve.x) <= _MOST_DOTS:
            parts.extend(_dot(curve.name, a, b, x, y, color) for a, b in piece)
    return parts


def _dot(name: str, a: float, b: float, x: Scale, y: Scale, color: str) -> Markup:
    label = element("title", f"{name}: {b:.4g} at {a:g}")
    return element("circle", label, cx=x(a), cy=y(b), r="2.5", fill=color)


def _pieces(curve: Series, y: Scale) -> list[list[tuple[float, float]]]:
    """The curve cut where a value can't be drawn."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for a, b in zip(curve.x, curve.y, strict=True):
        if _drawable(b, y):
            pieces[-1].append((a, b))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _drawable(value: float, scale: Scale) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.logarithmic)
