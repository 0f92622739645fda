"""The results as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from panendofm.imaging.images import open_image, thumbnail
from panendofm.linear_probe.results.document import SUMMARY, ProbeResults, TaskMetrics
from panendofm.linear_probe.results.published import (
    NOTE,
    RANKS_TITLE,
    forest_rows,
    notes,
    published_table,
    ranks_by_task,
    ranks_table,
)
from panendofm.linear_probe.results.published import TITLE as PUBLISHED_TITLE
from panendofm.linear_probe.results.tables import (
    CLEANING_TITLE,
    NOT_EVALUABLE,
    cleaning_table,
    main_table,
)
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import ForestRow, Series, forest_chart, line_chart
from panendofm.reports.numbers import difference, estimate, number

TITLE = "PanEndoX linear probe"
_SHOWN_PAIRS, _EXAMPLE_PX = 3, 160


@dataclass(frozen=True)
class TaskPart:
    """What the page shows of a task."""

    title: str
    summary: Table
    classes: Table
    charts: list[Markup]
    plots: list[PageImage]
    published: Markup
    subgroups: Table
    subgroup_chart: Markup
    subgroups_without_classes: str
    left_out: Table
    left_out_without_classes: str
    confused: Table
    examples: list[PageImage]
    tree_errors: Table


def page(
    results: ProbeResults, plots: dict[str, bytes], paths: Mapping[str, str], published_values: bool = True
) -> str:
    """`plots` by file name (roc_TASK….png, confusion_TASK….png), `paths` of test images by checksum."""
    beside = published_table(results) if published_values else Table([], [])
    return render_page(
        "panendofm.linear_probe",
        "probe.html",
        title=TITLE,
        results=results,
        main=main_table(results),
        forest=_forest(results),
        cleaning_title=CLEANING_TITLE,
        cleaning=cleaning_table(results),
        networks=_networks(results),
        paired=_paired(results),
        tasks=[_task(results, task, plots, paths, published_values) for task in results.results],
        published_title=PUBLISHED_TITLE,
        published_note=NOTE,
        published=beside,
        published_notes=notes(results) if beside.rows else [],
        ranks_title=RANKS_TITLE,
        ranks=ranks_table(),
        ranks_by_task=ranks_by_task(results),
    )


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
        [
            test.task,
            f"{test.a} − {test.b}",
            difference(test.difference, test.difference_low, test.difference_high),
            _p_value(test.p),
            _p_value(test.p_corrected),
        ]
        for test in results.paired_tests
    ]
    return Table(["task", "networks", "difference", "p", "p, corrected over all comparisons (Holm)"], rows)


def _p_value(value: float | None) -> str:
    return number(value) if value is None else f"{value:.3g}"


def _task(
    results: ProbeResults, task: str, plots: dict[str, bytes], paths: Mapping[str, str], published_values: bool
) -> TaskPart:
    own = {name: content for name, content in plots.items() if name.partition("_")[2].split(".")[0] == task}
    by_network = results.results[task]
    return TaskPart(
        title=results.tasks[task].title,
        summary=_summary(by_network),
        classes=_classes(by_network),
        charts=_label_fractions(by_network),
        plots=[PageImage(content, name, "png") for name, content in own.items()],
        published=_beside_published(by_network, task) if published_values else Markup(""),
        subgroups=_subgroups(by_network),
        subgroup_chart=_subgroup_chart(by_network),
        subgroups_without_classes=_without_classes(
            f"{one.kind} {one.name}" for one in _first(by_network).subgroups if not one.classes
        ),
        left_out=_left_out(by_network),
        left_out_without_classes=_without_classes(
            one.dataset for one in _first(by_network).left_out_datasets if not one.classes
        ),
        confused=_confused(by_network),
        examples=_error_examples(by_network, paths),
        tree_errors=_tree_errors(by_network),
    )


def _first(by_network: dict[str, TaskMetrics]) -> TaskMetrics:
    return next(iter(by_network.values()))


def _beside_published(by_network: dict[str, TaskMetrics], task: str) -> Markup:
    printed = forest_rows(task)
    ours = [
        ForestRow(name, metrics.auc.macro, metrics.auc.low, metrics.auc.high)
        for name, metrics in by_network.items()
        if metrics.auc.macro is not None
    ]
    title = "Ours, and published on other images (hollow)"
    return forest_chart(title, [*ours, *printed], x_label="macro-AUC", reference=0.5) if printed else Markup("")


def _subgroups(by_network: dict[str, TaskMetrics]) -> Table:
    """A row a subgroup in which classes can be told apart; they are the same for all networks."""
    columns = ["subgroup", "images", "classes"]
    for name in by_network:
        columns += [name, f"{name}, difference to all images"]
    rows = []
    for parts in zip(*(metrics.subgroups for metrics in by_network.values()), strict=True):
        first = parts[0]
        if not first.classes:
            continue
        cells = [
            text
            for one in parts
            for text in (
                estimate(one.auc.value, one.auc.low, one.auc.high),
                difference(one.difference.value, one.difference.low, one.difference.high),
            )
        ]
        rows.append([f"{first.kind}: {first.name}", first.images, first.classes, *cells])
    return Table(columns, rows)


def _without_classes(names: Iterable[str]) -> str:
    """Which parts of the test side can't be judged alone."""
    listed = ", ".join(names)
    return f"Not evaluable alone, because no two classes with images are in it: {listed}." if listed else ""


def _subgroup_chart(by_network: dict[str, TaskMetrics]) -> Markup:
    rows = [
        ForestRow(f"{name}: {one.name}", one.difference.value, one.difference.low, one.difference.high)
        for name, metrics in by_network.items()
        for one in metrics.subgroups
        if one.difference.value is not None
    ]
    title = "Subgroups minus all images"
    return forest_chart(title, rows, x_label="difference", reference=0.0, differences=True)


def _left_out(by_network: dict[str, TaskMetrics]) -> Table:
    rows = []
    for parts in zip(*(metrics.left_out_datasets for metrics in by_network.values()), strict=True):
        first = parts[0]
        if first.classes:
            cells = [estimate(one.auc.value, one.auc.low, one.auc.high) for one in parts]
            rows.append([first.dataset, first.training_images, first.images, first.classes, *cells])
    return Table(["dataset left out", "training images", "test images", "classes", *by_network], rows)


def _confused(by_network: dict[str, TaskMetrics]) -> Table:
    rows = [
        [
            name,
            one.level,
            one.truth,
            one.answer,
            f"{one.images} of {one.of}",
            estimate(one.share.value, one.share.low, one.share.high, 2),
        ]
        for name, metrics in by_network.items()
        for one in metrics.confused
    ]
    return Table(["network", "level", "truth", "taken for", "images", "share of the truth"], rows, numeric=False)


def _error_examples(by_network: dict[str, TaskMetrics], paths: Mapping[str, str]) -> list[PageImage]:
    """The surest mistakes of the most confused pairs of the last level."""
    found = []
    for name, metrics in by_network.items():
        last = metrics.confused[-1].level if metrics.confused else ""
        for one in [pair for pair in metrics.confused if pair.level == last][:_SHOWN_PAIRS]:
            for digest in one.examples:
                caption = f"{one.truth}, taken for {one.answer} ({name})"
                found.append(PageImage(thumbnail(open_image(paths[digest]), _EXAMPLE_PX), caption))
    return found


def _tree_errors(by_network: dict[str, TaskMetrics]) -> Table:
    found = {name: metrics.tree_errors for name, metrics in by_network.items() if metrics.tree_errors is not None}
    levels = next(iter(found.values())).wrong_at if found else {}
    rows = [
        [
            name,
            one.images,
            estimate(one.right.value, one.right.low, one.right.high),
            *(estimate(share.value, share.low, share.high) for share in one.wrong_at.values()),
            estimate(one.distance.value, one.distance.low, one.distance.high),
        ]
        for name, one in found.items()
    ]
    return Table(["network", "images", "right", *(f"wrong {level}" for level in levels), "mean distance"], rows)


def _summary(by_network: dict[str, TaskMetrics]) -> Table:
    rows = []
    for name, metrics in by_network.items():
        before, after = metrics.calibration.before, metrics.calibration.after
        unseen = metrics.without_pretraining_overlap
        good = metrics.without_poor_images
        seeds = metrics.seeds
        rows.append(
            [
                name,
                "" if seeds is None else f"{number(seeds.mean)} ± {number(seeds.deviation)} ({len(seeds.values)})",
                "none is poor" if good is None else estimate(good.macro, good.low, good.high),
                *(number(getattr(metrics, metric)) for metric in SUMMARY),
                f"{number(before.ece)} → {number(after.ece)}",
                f"{number(before.brier)} → {number(after.brier)}",
                "no overlap known" if unseen is None else number(unseen.macro),
                metrics.chosen.head,
            ]
        )
    names = [metric.replace("_", " ") for metric in SUMMARY]
    extra = ["AUC, mean ± sd over seeds", "AUC without poor images"]
    return Table(["network", *extra, *names, "ECE", "Brier", "AUC, unseen only", "head"], rows)


def _classes(by_network: dict[str, TaskMetrics]) -> Table:
    """AUC of every class."""
    first = _first(by_network)
    rows = []
    for name, counted in first.per_class.items():
        of_class = [metrics.per_class[name] for metrics in by_network.values()]
        cells = [NOT_EVALUABLE if one.auc is None else estimate(one.auc, one.low, one.high) for one in of_class]
        rows.append([name, str(counted.positives), *cells])
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
