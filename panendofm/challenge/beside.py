"""Our rows in the order of published ones, marked: a part of the pages of a score and of a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.challenge.published import PublishedTable
from panendofm.reports import Table
from panendofm.reports.charts import ForestRow, forest_chart
from panendofm.scoring.statistics.estimates import Estimate


@dataclass(frozen=True)
class OurRow:
    team: str
    method: str
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class BesidePublished:
    table: Table
    chart: Markup
    misprints: list[str]
    note: str


def beside_published(
    published: PublishedTable, columns: tuple[str, ...], rank_by: str, ours: Sequence[OurRow]
) -> BesidePublished:
    """Ordered by one metric; ours have no rank among the others, whose images and machines were different."""
    rows: list[tuple[float, bool, list[str]]] = []
    points: list[tuple[float, ForestRow]] = []
    for row in published.rows:
        value = row.metrics[rank_by]
        rows.append((value, False, [row.team, row.method, *(row.shown(column) for column in columns)]))
        points.append((value, ForestRow(row.team, value, hollow=True)))
    for own in ours:
        main = own.metrics[rank_by]
        value = main.value or 0.0
        rows.append((value, True, [own.team, own.method, *(_cell(own.metrics.get(c), c) for c in columns)]))
        points.append((value, ForestRow(own.team, value, main.low, main.high)))
    rows.sort(key=lambda row: -row[0])
    points.sort(key=lambda point: -point[0])
    device = f" Times: {published.device}." if published.device else ""
    return BesidePublished(
        table=Table(
            ["team", "method", *(column_title(column) for column in columns)],
            [cells for _, _, cells in rows],
            marked=frozenset(number for number, (_, is_ours, _) in enumerate(rows) if is_ours),
        ),
        chart=forest_chart("Beside the published rows", [point for _, point in points], x_label=rank_by, digits=4),
        misprints=[f"{r.team}, {c}: {why}" for r in published.rows for c, why in r.misprints.items() if c in columns],
        note=f"{published.year}, {published.images:,} images.{device} {published.note} {published.source}.",
    )


def _cell(found: Estimate | None, column: str) -> str:
    if found is None or found.value is None:
        return ""
    return f"{found.value:,.2f}" if column == "fps" else f"{found.value:.4f}"


def column_title(column: str) -> str:
    return {"fps": "images/s", "mcc": "MCC"}.get(column, column)
