"""The page of all runs: the newest value of every figure beside its goal, and the values before."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from benchmarks.catalog import CATALOG
from benchmarks.figures import Figure
from benchmarks.record import History, Result, Run
from panendofm.reports import Table, markdown, render_page
from panendofm.reports.charts import Series, line_chart

QUOTE_BEGIN, QUOTE_END = "<!-- benchmarks -->", "<!-- /benchmarks -->"


@dataclass(frozen=True)
class Measured:
    """A figure with the run that it comes from."""

    figure: Figure
    run: Run


@dataclass(frozen=True)
class Part:
    """What the page shows of one benchmark."""

    name: str
    question: str
    cost: str
    not_measured: str
    table: Table | None
    charts: tuple[Markup, ...]


def shown_value(value: float, unit: str) -> str:
    """«81%», «1.62×», «13.4 ms»: three digits are what a measurement beside other programs is good for."""
    if unit == "share":
        return f"{value:.1%}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 4
    return f"{value:,.{digits}f}{'' if unit == '×' else ' '}{unit}"


def shown_goal(figure: Figure) -> str:
    if figure.goal is None:
        return "–"
    return f"{'≥' if figure.better == 'higher' else '≤'} {shown_value(figure.goal, figure.unit)}"


def measurements(history: History) -> dict[str, dict[str, list[Measured]]]:
    """By benchmark and figure, the newest last. Sizes measure different work, so a figure's name tells them apart."""
    found: dict[str, dict[str, list[Measured]]] = {}
    for run in history.runs:
        for result in run.results:
            for figure in result.figures:
                name = figure.name if run.size == "small" else f"{figure.name} (full size)"
                found.setdefault(result.benchmark, {}).setdefault(name, []).append(Measured(figure, run))
    return found


def table_of(figures: dict[str, list[Measured]]) -> Table:
    rows = []
    short = set()
    for number, (name, values) in enumerate(figures.items()):
        last = values[-1]
        if last.figure.met is False:
            short.add(number)
        rows.append(
            (
                name,
                shown_value(last.figure.value, last.figure.unit),
                shown_goal(last.figure),
                {None: "–", True: "yes", False: "no"}[last.figure.met],
                last.figure.beside,
                last.run.commit or "–",
                last.run.date[:10],
            )
        )
    columns = ("figure", "value", "goal", "reached", "beside", "commit", "date")
    return Table(columns, rows, numeric=False, marked=frozenset(short))


def charts_of(figures: dict[str, list[Measured]]) -> tuple[Markup, ...]:
    """One for every figure that was measured more than once."""
    charts = []
    for name, values in figures.items():
        if len(values) > 1:
            runs = list(range(1, len(values) + 1))
            curves = [Series("value", runs, [one.figure.value for one in values])]
            goal = values[-1].figure.goal
            if goal is not None:
                curves.append(Series("goal", runs, [goal] * len(runs)))
            charts.append(line_chart(name, curves, x_label="run", y_label=values[-1].figure.unit))
    return tuple(charts)


def render(history: History) -> str:
    found = measurements(history)
    newest: dict[str, Result] = {result.benchmark: result for run in history.runs for result in run.results}
    parts = []
    for name, question in CATALOG.items():
        if name in newest:
            result, figures = newest[name], found.get(name, {})
            parts.append(
                Part(
                    name,
                    question,
                    f"{result.cpu_seconds:.0f} CPU seconds, {result.wall_seconds:.0f} s by the clock",
                    result.not_measured,
                    table_of(figures) if figures else None,
                    charts_of(figures),
                )
            )
    latest = [values[-1].figure for of_one in found.values() for values in of_one.values()]
    runs = [
        (
            run.date,
            run.commit or "–",
            run.size,
            f"{run.machine.processor}, {run.machine.cores} cores, {run.machine.instructions}",
            f"{run.machine.load:.1f}",
            f"{run.machine.python}, torch {run.machine.torch}",
            ", ".join(result.benchmark for result in run.results),
        )
        for run in reversed(history.runs)
    ]
    columns = ("date", "commit", "size", "machine", "load before", "Python", "benchmarks")
    return render_page(
        "benchmarks",
        "history.html",
        title="Benchmarks",
        met=sum(figure.met is True for figure in latest),
        judged=sum(figure.met is not None for figure in latest),
        parts_of_page=parts,
        runs=Table(columns, runs, numeric=False),
    )


def quoted(text: str, history: History) -> str:
    """A page of the documentation with the newest figures between its two marks."""
    before, _, rest = text.partition(QUOTE_BEGIN)
    _, _, after = rest.partition(QUOTE_END)
    return f"{before}{QUOTE_BEGIN}\n{newest_as_markdown(history)}\n{QUOTE_END}{after}"


def newest_as_markdown(history: History) -> str:
    """Every figure's newest value, with commit and date."""
    found = measurements(history)
    rows = [
        (f"{benchmark}: {row[0]}", *row[1:3], row[3], row[4], row[5], row[6])
        for benchmark, figures in found.items()
        for row in table_of(figures).rows
    ]
    return markdown(Table(("figure", "value", "goal", "reached", "beside", "commit", "date"), rows, numeric=False))
