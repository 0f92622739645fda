"""Dimensions of the rubric as tables and charts, one set for each text question."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports import Table
from panendofm.reports.charts import Violin, radar_chart, violin_chart
from panendofm.reports.numbers import MISSING, number, signed
from panendofm.vqa.people.rubric import HIGHEST, LOWEST, TOTAL, Rubric
from panendofm.vqa.score.by_question.readers import marks_of
from panendofm.vqa.score.by_question.results import DimensionValue, Part, Row
from panendofm.vqa.score.by_question.tables import Tables, difference_cell, name_of

_RADAR_LINES = 8


@dataclass(frozen=True)
class DimensionView:
    """What the page shows of one text question."""

    title: str
    table: Table
    differences: Table
    radar: Markup
    violins: list[Markup]


def dimension_views(part: Part, tables: Tables) -> list[DimensionView]:
    rubric = tables.benchmark.rubric
    views = []
    for question in tables.benchmark.questions:
        rows = [row for row in tables.ranked(part) if row.dimensions.get(question.code)]
        if rows:
            groups = [group.name for group in part.groups]
            views.append(
                DimensionView(
                    f"{question.code} {question.title}: dimensions",
                    _table(question.code, rows, groups, rubric),
                    _differences(question.code, rows, groups, rubric),
                    _radar(question.code, rows, rubric),
                    _violins(question.code, rows, rubric),
                )
            )
    return views


def _table(code: str, rows: list[Row], groups: list[str], rubric: Rubric) -> Table:
    contrasts = {contrast.name for contrast in rubric.contrasts}
    lines = []
    for row in rows:
        own = row.dimensions[code]
        n = max(value.n for value in own.values())
        cells = [_cell(row, code, name, groups, name in contrasts) for name, _ in rubric.columns]
        lines.append([name_of(row), str(n), *cells])
    return Table(["contestant", "texts", *(title for _, title in rubric.columns)], lines)


def _cell(row: Row, code: str, name: str, groups: list[str], contrast: bool) -> str:
    """Mean ± standard deviation, marks, and the interval on a line of its own; of a contrast with its sign."""
    own: DimensionValue | None = row.dimensions[code].get(name)
    if own is None:
        return MISSING
    shown = signed if contrast else number
    marks = marks_of({group: by.get(code, {}).get(name) for group, by in row.dimensions_against.items()}, groups)
    spread = "" if own.sd is None else f" ± {number(own.sd)}"
    between = " to " if contrast else "–"
    limits = "" if own.interval is None else f"\n({shown(own.interval[0])}{between}{shown(own.interval[1])})"
    return f"{shown(own.mean)}{spread}{marks}{limits}"


def _differences(code: str, rows: list[Row], groups: list[str], rubric: Rubric) -> Table:
    lines = []
    for row in rows:
        for group in groups:
            own = row.dimensions_against.get(group, {}).get(code, {})
            if own:
                cells = [
                    difference_cell(own.get(name), marks_of({group: own.get(name)}, [group]))
                    for name, _ in rubric.columns
                ]
                lines.append([f"{row.name} − {group}", *cells])
    return Table(["difference", *(title for _, title in rubric.columns)], lines)


def _radar(code: str, rows: list[Row], rubric: Rubric) -> Markup:
    """From 1 in the center to 5 at the rim."""
    names = rubric.names
    lines = []
    for row in rows[:_RADAR_LINES]:
        values = [row.dimensions[code].get(name) for name in names]
        shares = [None if own is None else (own.mean - LOWEST) / (HIGHEST - LOWEST) for own in values]
        lines.append((name_of(row), shares))
    return radar_chart(f"{code}: center {LOWEST}, rim {HIGHEST}", names, lines, rings=("2", "3", "4", "5"))


def _violins(code: str, rows: list[Row], rubric: Rubric) -> list[Markup]:
    """The total first, then each dimension; groups of readers are hollow."""
    charts = []
    for name, title in [(TOTAL, TOTAL), *((n, n) for n in rubric.names)]:
        violins = [
            Violin(row.name, _values(row.dimensions[code][name]), hollow=bool(row.readers))
            for row in rows
            if name in row.dimensions[code]
        ]
        charts.append(violin_chart(f"{code}: {title}", violins, LOWEST - 0.5, HIGHEST + 0.5, y_label="rating"))
    return [chart for chart in charts if chart]


def _values(value: DimensionValue) -> list[float]:
    return [float(rating) for rating, count in value.counts.items() for _ in range(count)]
