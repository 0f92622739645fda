"""The leaderboard as one page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.reports import Table, render_page
from panendofm.reports.charts import (
    ForestRow,
    Point,
    Series,
    forest_chart,
    heatmap_chart,
    line_chart,
    radar_chart,
    scatter_chart,
)
from panendofm.reports.charts.svg import color_of
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.by_question.dimension_tables import dimension_views
from panendofm.vqa.score.by_question.examples import example_cards, overlays, said
from panendofm.vqa.score.by_question.grounding import statement
from panendofm.vqa.score.by_question.over_interpretation import said_too_much_table
from panendofm.vqa.score.by_question.readers import MARKS
from panendofm.vqa.score.by_question.results import Part, QuestionResults
from panendofm.vqa.score.by_question.tables import Tables, agreement_table, name_of
from panendofm.vqa.score.published import published_views
from panendofm.vqa.score.sheets import Sheet

_RULE = " (sign flips over classes, Holm over all models and groups of a column, 0.05)."
_RADAR_LINES = 8


@dataclass(frozen=True)
class _Titled:
    title: str
    table: Table
    note: str = ""


def page_of(
    benchmark: Benchmark, bench: Bench, results: QuestionResults, tables: Tables, sheets: Sequence[Sheet]
) -> str:
    best = results.human or results.full
    parts = {
        "Images that people answered too": results.human,
        "All images": results.full,
        "Complete cases only, as in the paper": results.complete_cases,
    }
    main = [
        _Titled(f"{title} ({part.images})", tables.main(part), _legend(part))
        for title, part in parts.items()
        if part is not None and part.rows
    ]
    boxes = [
        _Titled(
            f"{question.code}: boxes", tables.boxes(results.full, question.code), _box_notes(results, question.code)
        )
        for question in benchmark.questions
        if question.kind is BOX
    ]
    cards = example_cards(bench, sheets)
    return render_page(
        "panendofm.vqa",
        "by_question.html",
        title=f"{results.bench}: leaderboard",
        results=results,
        offers={"all": "all lesions", "region": "the lesions of the own site"}.get(results.diagnosis_options, ""),
        raters=_raters(results),
        ceilings=_ceilings(results, tables),
        main=main,
        forests=_forests(best, tables),
        radar=_radar(best, tables, benchmark),
        differences=tables.differences(best),
        prompts=tables.prompts(best),
        blind=tables.blind(best),
        repeats=tables.repeats(best),
        replies=tables.replies(best),
        boxes=boxes,
        heatmaps=_heatmaps(best, tables, benchmark),
        chained=any(row.chain for row in results.full.rows),
        chains=tables.chains(results.full),
        grounding=tables.grounding(best),
        statements=_statements(best, tables, benchmark),
        recall_curves=_recall_curves(best, tables, benchmark),
        too_much=_too_much(best, benchmark),
        too_much_rubric=benchmark.more_rubrics.get("over_interpretation"),
        cost=_cost(best, tables),
        dimensions=dimension_views(best, tables),
        contrasts=benchmark.rubric.contrasts,
        agreement=agreement_table(results.agreement),
        overlays=overlays(benchmark, bench, sheets),
        cards=cards,
        sheets=[(sheet, color_of(number)) for number, sheet in enumerate(sheets)],
        said=said,
        replied=[question for question in benchmark.questions if not question.kind.rated],
        written=[question for question in benchmark.questions if question.kind.rated],
        filters={"site": sorted({card.site for card in cards}), "class": sorted({card.lesion for card in cards})},
        published=results.published,
        published_on="images",
        published_views=published_views(results.published),
    )


def _raters(results: QuestionResults) -> str:
    own = results.judges_in_the_table
    return results.rated_by + (f" ({', '.join(own)} is a contestant itself)" if own else "")


def _ceilings(results: QuestionResults, tables: Tables) -> str:
    first = results.full.rows[0].plain if results.full.rows else {}
    return " ".join(
        f"{tables.titles[name]} can't be more than {plain.ceiling:.3f} on all images."
        for name, plain in first.items()
        if plain.ceiling is not None
    )


def _legend(part: Part) -> str:
    groups = [group.name for group in part.groups]
    if not groups:
        return ""
    legend = ", ".join(f"{mark} differs from {group}" for mark, group in zip(MARKS, groups, strict=False)) + _RULE
    alone = [group.name for group in part.groups if group.readers == 1]
    return legend + (f" One reader alone: {', '.join(alone)}; intervals over images only." if alone else "")


def _box_notes(results: QuestionResults, code: str) -> str:
    known = [row.boxes[code] for row in results.full.rows if code in row.boxes]
    notes = []
    if known and known[0].outline_ceiling is not None:
        notes.append(f"Outline: no box gets more than about {known[0].outline_ceiling:.3f}.")
    if known and known[0].annotators_iou is not None:
        notes.append(f"The annotators' own boxes overlap by {known[0].annotators_iou:.3f}.")
    return " ".join(notes)


def _forests(part: Part, tables: Tables) -> list[Markup]:
    """One chart for each question type; groups of readers are hollow."""
    charts = []
    for metric, title in tables.own.items():
        rows = []
        for row in tables.ranked(part):
            if metric in row.metrics:
                own = row.metrics[metric]
                rows.append(ForestRow.of(name_of(row), own.value, own.interval, hollow=bool(row.readers)))
        charts.append(forest_chart(title, rows))
    return charts


def _radar(part: Part, tables: Tables, benchmark: Benchmark) -> Markup:
    """All metrics whose best value is known, as shares of it."""
    metrics = [metric for question in benchmark.questions for metric in question.metrics]
    shown = [metric for metric in metrics if any(metric.name in row.metrics for row in part.rows)]
    lines = []
    for row in tables.ranked(part)[:_RADAR_LINES]:
        values = [row.value(metric.name) for metric in shown]
        shares = [None if value is None else value / metric.high for value, metric in zip(values, shown, strict=True)]
        lines.append((name_of(row), shares))
    return radar_chart("all metrics", [metric.title for metric in shown], lines)


def _heatmaps(part: Part, tables: Tables, benchmark: Benchmark) -> list[tuple[str, Markup]]:
    charts = []
    for question in benchmark.questions:
        if not question.metrics or question.kind.rated:
            continue
        metric = question.metrics[0]
        rows = [row for row in tables.ranked(part) if metric.name in row.by_class]
        names = sorted({name for row in rows for name in row.by_class[metric.name]})
        if rows:
            values = [[row.by_class[metric.name].get(name) for name in names] for row in rows]
            charts.append((metric.title, heatmap_chart("", [row.name for row in rows], names, values)))
    return charts


def _statements(part: Part, tables: Tables, benchmark: Benchmark) -> list[str]:
    return [
        statement(name_of(row), row.grounding, benchmark.questions)
        for row in tables.ranked(part)
        if row.grounding is not None
    ]


def _recall_curves(part: Part, tables: Tables, benchmark: Benchmark) -> list[Markup]:
    """The share of lesions whose box reaches each overlap; the area below a curve is the mean overlap."""
    charts = []
    for question in benchmark.questions:
        curves = []
        for row in tables.ranked(part)[:_RADAR_LINES]:
            known = row.boxes[question.code].recall_curve if question.code in row.boxes else {}
            if known:
                curves.append(Series(name_of(row), [float(key) for key in known], list(known.values())))
        if curves:
            title = f"{question.code}: recall over overlap"
            charts.append(line_chart(title, curves, x_label="overlap (IoU)", y_label="recall", marked_x=0.5))
    return charts


def _too_much(part: Part, benchmark: Benchmark) -> Table | None:
    rubric = benchmark.more_rubrics.get("over_interpretation")
    return None if rubric is None else said_too_much_table(part, rubric)


def _cost(part: Part, tables: Tables) -> Markup:
    points = []
    for row in part.rows:
        cost = row.accounting.cost_per_1000 if row.accounting else None
        value = row.value(tables.rank_by)
        if cost is not None and value is not None:
            points.append((row.name, cost, value))
    dots = [
        Point(name, x, y, on_front=not any(a <= x and b >= y and (n, a, b) != (name, x, y) for n, a, b in points))
        for name, x, y in points
    ]
    title = tables.titles[tables.rank_by]
    levels = [(group.name, value) for group in part.groups if (value := group.value(tables.rank_by)) is not None]
    return scatter_chart("quality against cost", dots, x_label="cost of 1000 requests", y_label=title, y_levels=levels)
