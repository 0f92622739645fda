"""The results as one HTML page."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from panendofm.linear_probe.results.document import SUMMARY, ProbeResults, TaskMetrics
from panendofm.linear_probe.results.tables import (
    CLEANING_TITLE,
    NOT_EVALUABLE,
    TextTable,
    cleaning_table,
    main_table,
)
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import ForestRow, Series, forest_chart, line_chart
from panendofm.reports.numbers import estimate, number, signed

TITLE = "PanEndoX linear probe"


@dataclass(frozen=True)
class TaskPart:
    """What the page shows of a task."""

    title: str
    summary: Table
    classes: Table
    charts: list[Markup]
    plots: list[PageImage]


def page(results: ProbeResults, plots: dict[str, bytes]) -> str:
    """`plots` by file name (roc_TASK….png, confusion_TASK….png)."""
    return render_page(
        "panendofm.linear_probe",
        "probe.html",
        title=TITLE,
        results=results,
        main=_table(main_table(results)),
        forest=_forest(results),
        cleaning_title=CLEANING_TITLE,
        cleaning=_table(cleaning_table(results)),
        networks=_networks(results),
        paired=_paired(results),
        tasks=[_task(results, task, plots) for task in results.results],
    )


def _table(content: TextTable) -> Table:
    return Table(content.columns, content.rows, best=content.best)


def _forest(results: ProbeResults) -> Markup:
    rows = [
        ForestRow(f"{results.tasks[task].title}: {name}", metrics.auc.macro, metrics.auc.low, metrics.auc.high)
        for task, by_network in results.results.items()
        for name, metrics in by_network.items()
        if metrics.auc.macro is not None
    ]
    return forest_chart("Macro-AUC of every task and network", rows, x_label="macro-AUC", reference=0.5)


def _networks(results: ProbeResults) -> Table:
    columns = ["network", "architecture", "parameters (M)", "latency (ms)", "images/s", "device", "checksum"]
    rows = []
    for model in results.models:
        speed = model.efficiency
        rows.append(
            [
                model.name,
                model.architecture,
                f"{speed.parameters / 1e6:.1f}",
                f"{speed.latency_ms:.1f}",
                f"{speed.images_per_second:.1f}",
                speed.device,
                model.weights_sha256[:12],
                "yes" if model.certificate else "none",
            ]
        )
    return Table([*columns, "leakage certificate"], rows)


def _paired(results: ProbeResults) -> Table:
    rows = [
        [test.task, f"{test.a} − {test.b}", signed(test.difference), _p_value(test.p), _p_value(test.p_corrected)]
        for test in results.paired_tests
    ]
    return Table(["task", "networks", "difference", "p", "p, corrected over tasks (Holm)"], rows)


def _p_value(value: float | None) -> str:
    return number(value) if value is None else f"{value:.3g}"


def _task(results: ProbeResults, task: str, plots: dict[str, bytes]) -> TaskPart:
    own = {name: content for name, content in plots.items() if name.partition("_")[2].split(".")[0] == task}
    by_network = results.results[task]
    return TaskPart(
        title=results.tasks[task].title,
        summary=_summary(by_network),
        classes=_classes(by_network),
        charts=_label_fractions(by_network),
        plots=[PageImage(content, name, "png") for name, content in own.items()],
    )


def _summary(by_network: dict[str, TaskMetrics]) -> Table:
    rows = []
    for name, metrics in by_network.items():
        before, after = metrics.calibration.before, metrics.calibration.after
        unseen = metrics.without_pretraining_overlap
        rows.append(
            [
                name,
                *(number(getattr(metrics, metric)) for metric in SUMMARY),
                f"{number(before.ece)} → {number(after.ece)}",
                f"{number(before.brier)} → {number(after.brier)}",
                "no overlap known" if unseen is None else number(unseen.macro),
                metrics.chosen.head,
            ]
        )
    names = [metric.replace("_", " ") for metric in SUMMARY]
    return Table(["network", *names, "ECE", "Brier", "AUC, unseen only", "head"], rows)


def _classes(by_network: dict[str, TaskMetrics]) -> Table:
    """AUC of every class, then macro-AUC on every dataset."""
    first = next(iter(by_network.values()))
    rows = []
    for name, counted in first.per_class.items():
        of_class = [metrics.per_class[name] for metrics in by_network.values()]
        cells = [NOT_EVALUABLE if one.auc is None else estimate(one.auc, one.low, one.high) for one in of_class]
        rows.append([name, str(counted.positives), *cells])
    for name, dataset in first.per_dataset.items():
        cells = [number(metrics.per_dataset[name].macro) for metrics in by_network.values()]
        rows.append([f"dataset {name}", str(dataset.images), *cells])
    return Table(["class", "images", *by_network], rows)


def _label_fractions(by_network: dict[str, TaskMetrics]) -> list[Markup]:
    """Macro-AUC over the share of labels, where it was asked for."""
    series = []
    for name, metrics in by_network.items():
        points = [point for point in metrics.label_fractions if point.auc.value is not None]
        low = [_or(point.auc.low, point.auc.value) for point in points]
        high = [_or(point.auc.high, point.auc.value) for point in points]
        values = [_or(point.auc.value, None) for point in points]
        if points:
            series.append(Series(name, [point.share for point in points], values, low, high))
    return [line_chart("Macro-AUC by the share of labels", series, x_label="share of labels")] if series else []


def _or(value: float | None, otherwise: float | None) -> float:
    found = otherwise if value is None else value
    return float("nan") if found is None else found
