"""Quality against cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports.charts.axes import Frame, Scale
from panendofm.reports.charts.svg import ACCENT, MUTED, drawing, element, line, points, text

_LETTER_PX = 6.3


@dataclass(frozen=True)
class Point:
    """A hollow point is one of others, measured elsewhere. `on_front`: no other point is better in both directions."""

    name: str
    x: float
    y: float
    hollow: bool = False
    on_front: bool = False


def scatter_chart(
    title: str,
    dots: Sequence[Point],
    *,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
    x_marks: Sequence[float] = (),
    y_levels: Sequence[tuple[str, float]] = (),
) -> Markup:
    """Named points; `x_marks` are vertical lines, `y_levels` named horizontal ones; the front is joined by a line."""
    if not dots:
        return Markup("")
    frame = Frame(width=760, height=400)
    x = frame.x_scale([dot.x for dot in dots], logarithmic, include=x_marks)
    y = frame.y_scale([dot.y for dot in dots] + [level for _, level in y_levels])
    parts = frame.axes(x, y, x_label, y_label)
    floor = frame.height - frame.bottom
    for mark in x_marks:
        parts.append(line(x(mark), frame.top, x(mark), floor, "#c9a100", stroke_dasharray="3 4"))
        parts.append(text(f"{mark:g}", x(mark) + 3, frame.top + 10, 10, fill="#8a6d00"))
    for name, level in y_levels:
        parts.append(line(frame.left, y(level), frame.width - frame.right, y(level), "#999", stroke_dasharray="4 3"))
        parts.append(text(name, frame.width - frame.right, y(level) - 4, text_anchor="end", fill=MUTED))
    front = sorted((dot.x, dot.y) for dot in dots if dot.on_front)
    path = points([(x(a), y(b)) for a, b in front])
    parts.append(element("polyline", points=path, fill="none", stroke=ACCENT, stroke_opacity="0.5", stroke_width="1.5"))
    parts.extend(_named_dots(dots, x, y, frame))
    return drawing(title, frame.width, frame.height, *parts)


def _named_dots(dots: Sequence[Point], x: Scale, y: Scale, frame: Frame) -> list[Markup]:
    """Names are moved down where they would lie on one another."""
    parts: list[Markup] = []
    placed: list[tuple[float, float, float]] = []
    for dot in sorted(dots, key=lambda dot: -dot.y):
        width = _LETTER_PX * len(dot.name)
        fits_right = x(dot.x) + 8 + width < frame.width
        left = x(dot.x) + 8 if fits_right else x(dot.x) - 8 - width
        height = y(dot.y) + 4
        while any(abs(height - other) < 12 and left < at + wide and at < left + width for at, other, wide in placed):
            height += 12
        placed.append((left, height, width))
        label = element("title", f"{dot.name}: {dot.y:.4f} at {dot.x:,.4g}")
        fill = "#fff" if dot.hollow else ACCENT
        parts.append(
            element("circle", label, cx=x(dot.x), cy=y(dot.y), r="5", fill=fill, stroke=ACCENT, stroke_width="1.5")
        )
        parts.append(text(dot.name, left, height, font_weight=400 if dot.hollow else 700))
    return parts
