"""Estimates with their intervals, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports.charts.axes import Frame
from panendofm.reports.charts.svg import ACCENT, drawing, element, line, text
from panendofm.reports.numbers import difference, estimate

_ROW_PX = 22
_NUMBERS_PX = 150


@dataclass(frozen=True)
class ForestRow:
    """`low` and `high` may be missing. A hollow row is one of others, measured elsewhere."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False

    @classmethod
    def of(cls, name: str, value: float, interval: tuple[float, float] | None, hollow: bool = False) -> ForestRow:
        """With an interval that may be missing."""
        low, high = interval or (None, None)
        return cls(name, value, low, high, hollow)


def forest_chart(
    title: str,
    rows: Sequence[ForestRow],
    *,
    x_label: str = "",
    reference: float | None = None,
    digits: int = 3,
    differences: bool = False,
) -> Markup:
    """`reference` draws a vertical line: no difference, chance, or the overall value.

    `differences` writes the numbers with their signs.
    """
    if not rows:
        return Markup("")
    names_px = 18 + 7.2 * max(len(row.name) for row in rows)
    frame = Frame(names_px + 320 + _NUMBERS_PX, 70 + _ROW_PX * len(rows), names_px, _NUMBERS_PX)
    limits = [limit for row in rows for limit in (row.value, row.low, row.high) if limit is not None]
    x = frame.x_scale([*limits, *([] if reference is None else [reference])])
    parts = frame.axes(x, None, x_label, title=title)
    floor = frame.height - frame.bottom
    if reference is not None:
        parts.append(line(x(reference), frame.top, x(reference), floor, "#333", stroke_dasharray="5 4"))
    for number, row in enumerate(rows):
        height = frame.top + _ROW_PX * (number + 0.5)
        parts.append(text(row.name, frame.left - 8, height + 4, text_anchor="end"))
        if row.low is not None and row.high is not None:
            parts.append(line(x(row.low), height, x(row.high), height, ACCENT, stroke_width="2"))
        written = difference if differences else estimate
        shown = written(row.value, row.low, row.high, digits)
        fill = "#fff" if row.hollow else ACCENT
        label = element("title", f"{row.name}: {shown}")
        parts.append(
            element(
                *("rect", label),
                x=x(row.value) - 4,
                y=height - 4,
                width="8",
                height="8",
                fill=fill,
                stroke=ACCENT,
                stroke_width="1.5",
            )
        )
        parts.append(text(shown, frame.width - 4, height + 4, text_anchor="end", fill="#444"))
    return drawing(title, frame.width, frame.height, *parts)
