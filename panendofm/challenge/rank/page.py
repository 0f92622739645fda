"""index.html of a ranking: the table, the published rows, speed against quality, paired tests."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from panendofm.challenge.beside import OurRow, beside_published, column_title
from panendofm.challenge.profiles.medico import CLINICAL_ROWS
from panendofm.challenge.published import PublishedTable
from panendofm.challenge.rank.ranking import ClinicalRow, RankedRow, Ranking
from panendofm.challenge.shown import shown
from panendofm.reports import Table, render_page
from panendofm.reports.charts import ForestRow, Point, forest_chart, scatter_chart
from panendofm.reports.numbers import MISSING, signed
from panendofm.scoring.statistics.estimates import Estimate
from panendofm.scoring.statistics.ranking import Entry, pareto_front
from panendofm.scoring.statistics.speed import REAL_TIME_FPS


def rank_page(ranking: Ranking, entries: Sequence[Entry], published: PublishedTable | None) -> str:
    theirs = [row.entry(ranking.metrics[0]) for row in published.rows] if published else []
    return render_page(
        "panendofm.challenge",
        "ranking.html",
        title=f"Ranking: {ranking.title}",
        ranking=ranking,
        ours=Table(*ranked_table(ranking)),
        chart=_forest(ranking),
        clinical=_clinical_table(ranking.clinical_rows),
        clinical_printed=_printed_table(),
        published=_published(ranking, published) if published and not ranking.clinical_rows else None,
        speed_chart=_speed_chart(ranking, entries, theirs),
        our_front=", ".join(entry.team for entry in pareto_front(entries)) or "nobody",
        their_front=", ".join(entry.team for entry in pareto_front(theirs)),
        tests=_test_table(ranking),
        test_chart=_test_chart(ranking),
    )


def ranked_table(ranking: Ranking) -> tuple[list[str], list[list[str]]]:
    """Columns and rows."""
    columns = ["team", "run", "rank", *(column_title(name) for name in ranking.metrics), "images/s", "note"]
    return columns, [_cells(ranking, row) for row in ranking.rows]


def _cells(ranking: Ranking, row: RankedRow) -> list[str]:
    fps = "" if row.fps is None else f"{row.fps:,.2f}"
    metrics = [shown(row.metrics[name]) for name in ranking.metrics]
    return [row.team, row.run, MISSING if row.rank is None else str(row.rank), *metrics, fps, row.note]


def _forest(ranking: Ranking) -> Markup:
    if not ranking.rows:
        return Markup("")
    main = ranking.metrics[0]
    rows = []
    for row in ranking.rows:
        found = row.metrics[main]
        if found.value is not None:
            rows.append(
                ForestRow(f"{row.team} #{row.run}", found.value, found.low, found.high, hollow=row.rank is None)
            )
    return forest_chart("Ours, hollow: without a rank", rows, x_label=column_title(main), digits=4)


def _clinical_table(rows: Sequence[ClinicalRow]) -> Table:
    columns = list(vars(rows[0])) if rows else []
    cells = [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in vars(row).values()] for row in rows]
    return Table([name.replace("_", " ") for name in columns], cells)


def _printed_table() -> Table:
    """The report's last table, as printed."""
    ranks = ("mcc_rank", "robustness_rank", "speed_rank", "clinical_rank")
    rows = [
        [str(row.year), row.team, f"{row.mcc:.4f}", *(str(row.printed.get(name, MISSING)) for name in ranks)]
        for row in CLINICAL_ROWS
    ]
    return Table(
        ["year", "team", "MCC", "MCC rank", "robustness rank", "speed rank", "clinical rank, as printed"], rows
    )


def _published(ranking: Ranking, published: PublishedTable) -> object:
    columns = (*ranking.metrics, "fps")
    ours = []
    for row in ranking.rows:
        speed = {} if row.fps is None else {"fps": Estimate(row.fps)}
        ours.append(OurRow(row.team, "ours", {**row.metrics, **speed}))
    return beside_published(published, columns, ranking.metrics[0], ours)


def _speed_chart(ranking: Ranking, entries: Sequence[Entry], theirs: Sequence[Entry]) -> Markup:
    """Ours and theirs have a front each, because their machines and images were others; only ours is drawn."""
    front = pareto_front(entries)
    dots = [
        Point(f"{entry.team} #{entry.run}", entry.fps, entry.score, on_front=entry in front)
        for entry in entries
        if entry.fps
    ]
    dots += [Point(entry.team, entry.fps, entry.score, hollow=True) for entry in theirs if entry.fps]
    return scatter_chart(
        "Speed against quality",
        dots,
        x_label="images per second (dotted: real time by three definitions)",
        y_label=column_title(ranking.metrics[0]),
        logarithmic=True,
        x_marks=REAL_TIME_FPS,
    )


def p_text(p: float | None) -> str:
    return MISSING if p is None else f"{p:.3g}"


def _test_table(ranking: Ranking) -> Table:
    rows = []
    for test in ranking.paired_tests:
        limits = "" if test.low is None else f"{signed(test.low, 4)} to {signed(test.high, 4)}"
        names = f"{test.a} − {test.b}"
        rows.append([names, signed(test.difference, 4), limits, p_text(test.p), p_text(test.p_corrected)])
    return Table(["systems", "difference in MCC (R_K)", "95%", "p", "p, corrected over pairs (Holm)"], rows)


def _test_chart(ranking: Ranking) -> Markup:
    rows = [ForestRow(f"{t.a} − {t.b}", t.difference, t.low, t.high) for t in ranking.paired_tests]
    return forest_chart("Differences between systems", rows, x_label="difference in MCC", reference=0.0, digits=4)
