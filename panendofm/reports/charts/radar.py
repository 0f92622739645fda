"""Several shares of a few contestants, one axis each."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from markupsafe import Markup

from panendofm.reports.charts.svg import GRID, MUTED, color_of, drawing, element, legend, points, text

_SIDE_PX = 440
_RIM_PX = _SIDE_PX / 2 - 60


def radar_chart(
    title: str,
    axes: Sequence[str],
    lines: Sequence[tuple[str, Sequence[float | None]]],
    *,
    rings: Sequence[str] = ("0.25", "0.5", "0.75", "1"),
) -> Markup:
    """Shares from 0 (center) to 1 (rim); nothing for fewer than three axes. What is missing is drawn at the center.

    `rings` are the words at a quarter, a half, three quarters and the rim.
    """
    if len(axes) < 3:
        return Markup("")
    parts = []
    for share, label in zip((0.25, 0.5, 0.75, 1.0), rings, strict=True):
        rim = points([_place(number, len(axes), share) for number in range(len(axes))])
        parts.append(element("polygon", points=rim, fill="none", stroke=GRID))
        x, y = _place(0, len(axes), share)
        parts.append(text(label, x + 3, y + 4, 9, fill=MUTED))
    for number, name in enumerate(axes):
        x, y = _place(number, len(axes), 1.13)
        parts.append(text(name, x, y + 4, text_anchor="middle"))
    for number, (name, shares) in enumerate(lines):
        corners = [_place(axis, len(axes), share or 0.0) for axis, share in enumerate(shares)]
        color = color_of(number)
        parts.append(
            element(
                *("polygon", element("title", name)),
                points=points(corners),
                fill=color,
                fill_opacity="0.1",
                stroke=color,
                stroke_width="1.5",
            )
        )
    return drawing(title, _SIDE_PX, _SIDE_PX, *parts) + legend([name for name, _ in lines])


def _place(number: int, count: int, share: float) -> tuple[float, float]:
    """Axes go clockwise from the top."""
    angle = 2 * pi * number / count - pi / 2
    center = _SIDE_PX / 2
    return center + _RIM_PX * share * cos(angle), center + _RIM_PX * share * sin(angle)
