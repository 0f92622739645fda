"""A matrix of counts or shares in colors, as a table: it can be read, copied and searched."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from panendofm.reports.charts.svg import element

_RIGHT = "31, 90, 160"
_WRONG = "190, 50, 40"


def confusion_chart(classes: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Truth down, prediction across; the darker, the larger the share of its row. Errors are red, hits blue."""
    rows = []
    for i, (name, row) in enumerate(zip(classes, counts, strict=True)):
        total = max(sum(row), 1)
        cells = []
        for j, count in enumerate(row):
            title = f"{name} predicted as {columns[j]}: {count} of {total}"
            # The square root shows rare errors, too.
            shade = 0.08 + 0.8 * math.sqrt(count / total) if count else 0.0
            cells.append(_cell(str(count) if count else "", shade, _RIGHT if i == j else _WRONG, title))
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    return _matrix("truth \\ predicted", columns, rows)


def heatmap_chart(
    corner: str, names: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], digits: int = 2
) -> Markup:
    """Any values from 0 to 1, such as the score of each contestant on each task; a dash where there is none."""
    rows = []
    for name, row in zip(names, values, strict=True):
        cells = []
        for column, value in zip(columns, row, strict=True):
            shown = "–" if value is None else f"{value:.{digits}f}"
            shade = 0.0 if value is None else 0.05 + 0.85 * min(max(value, 0.0), 1.0)
            cells.append(_cell(shown, shade, _RIGHT, f"{name}, {column}: {shown}"))
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    return _matrix(corner, columns, rows)


def _cell(shown: str, shade: float, color: str, title: str) -> Markup:
    ink = "#fff" if shade > 0.55 else "#222"
    style = f"background: rgba({color}, {shade:.2f}); color: {ink}" if shade else None
    return element("td", shown, style=style, title=title)


def _matrix(corner: str, columns: Sequence[str], rows: Sequence[Markup]) -> Markup:
    head = [element("th", element("span", name), class_="turned", scope="col") for name in columns]
    top = element("thead", element("tr", element("th", corner), *head))
    table = element("table", top, element("tbody", *rows), class_="matrix")
    return element("div", table, class_="scroll")
