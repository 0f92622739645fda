"""Counts as bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from panendofm.reports.charts.axes import Frame, Scale, tick_label
from panendofm.reports.charts.svg import ACCENT, drawing, element, line, text

_ROW_PX = 20


def bar_chart(title: str, rows: Sequence[tuple[str, float]], *, unit: str = "") -> Markup:
    """Horizontal bars with their values, one row each."""
    if not rows:
        return Markup("")
    left = 18 + 7.2 * max(len(name) for name, _ in rows)
    width = left + 360
    height = 30 + _ROW_PX * len(rows)
    largest = max(value for _, value in rows) or 1.0
    across = Scale(0.0, largest, left, width - 80)
    parts = [text(title, 4, 16, 13, font_weight=600)]
    for number, (name, value) in enumerate(rows):
        top = 26 + _ROW_PX * number
        parts.append(text(name, left - 6, top + 12, text_anchor="end"))
        length = max(across(value) - left, 0.0)
        parts.append(element("rect", x=left, y=float(top), width=length, height="14", fill=ACCENT))
        shown = f"{tick_label(value)} {unit}".strip()
        parts.append(text(shown, across(value) + 5, top + 12, fill="#444"))
    return drawing(title, width, height, *parts)


def histogram(title: str, edges: Sequence[float], counts: Sequence[int], *, marked_x: float | None = None) -> Markup:
    """Counts between neighboring edges (one more than counts); `marked_x` draws a vertical line, for a threshold."""
    frame = Frame(width=360, height=200)
    x = frame.x_scale([], include=(edges[0], edges[-1]))
    y = frame.y_scale([float(count) for count in counts], include=(0.0,))
    parts = frame.axes(x, None, title=title)
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        label = element("title", f"{left:.4g} to {right:.4g}: {count:,}")
        width = max(x(right) - x(left) - 1, 1.0)
        parts.append(element("rect", label, x=x(left), y=y(count), width=width, height=y(0) - y(count), fill=ACCENT))
    if marked_x is not None:
        parts.append(line(x(marked_x), frame.top, x(marked_x), y(0), "#d1495b", stroke_dasharray="5 4"))
    return drawing(title, frame.width, frame.height, *parts)
