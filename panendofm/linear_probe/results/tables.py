"""The table of the paper, one row a task and one column a network, and long tables as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from panendofm.linear_probe.results.document import (
    SUMMARY,
    ClassMetrics,
    ConfusedPair,
    LeftOutDataset,
    MacroAuc,
    ProbeResults,
    SubgroupAuc,
    SubsetAuc,
    TaskMetrics,
    Uncleaned,
)
from panendofm.reports import Table, markdown
from panendofm.reports.numbers import difference, estimate
from panendofm.runtime.csv_files import csv_text
from panendofm.scoring.statistics.estimates import Estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CLEANING_TITLE = "Macro-AUC: images cleaned as training frames are, and as they came"
NOT_EVALUABLE = "not evaluable"


def main_table(results: ProbeResults) -> Table:
    names = [model.name for model in results.models]
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()

    def add(title: str, classes: str, values: list[MacroAuc]) -> None:
        rounded = [None if value.macro is None else round(value.macro, 3) for value in values]
        top = max((value for value in rounded if value is not None), default=None)
        if len(values) > 1 and top is not None:
            best.update((len(rows), 2 + column) for column, value in enumerate(rounded) if value == top)
        rows.append([title, classes, *(auc_cell(value) for value in values)])

    for task, by_network in results.results.items():
        counts = results.tasks[task]
        values = [by_network[name].auc for name in names]
        add(counts.title, f"{counts.evaluable_classes}/{counts.classes}", values)
        for level in by_network[names[0]].levels:
            inner = [by_network[name].levels[level] for name in names]
            add(f"  {level}", str(inner[0].classes), inner)
    return Table(["task", "classes", *names], rows, best=frozenset(best))


def auc_cell(value: MacroAuc | Uncleaned) -> str:
    return NOT_EVALUABLE if value.macro is None else estimate(value.macro, value.low, value.high)


def cleaning_table(results: ProbeResults) -> Table:
    """Cleaned images, the same as they came, and the difference. No rows if nothing was cleaned."""
    rows = []
    for task, by_network in results.results.items():
        for name, metrics in by_network.items():
            raw = metrics.as_they_came
            if raw is not None:
                change = difference(raw.difference, raw.difference_low, raw.difference_high)
                rows.append([results.tasks[task].title, name, auc_cell(metrics.auc), auc_cell(raw), change])
    return Table(["task", "network", "cleaned", "as they came", "difference"], rows)


def as_markdown(results: ProbeResults, beside: Table | None = None) -> str:
    """`beside`: the table with published values, where they are shown."""
    lines = [markdown(main_table(results)), "", caption(results)]
    lines += [f"Not evaluable: {name} ({why})." for name, why in results.not_evaluable.items()]
    cleaning = cleaning_table(results)
    if cleaning.rows:
        lines += ["", f"{CLEANING_TITLE}:", "", markdown(cleaning)]
    if beside is not None and beside.rows:
        lines += ["", "Beside the paper's values, which are of other images:", "", markdown(beside)]
    return "\n".join(lines) + "\n"


def caption(results: ProbeResults) -> str:
    return (
        f"Macro-AUC on the test side with {100 * results.confidence:g}% bootstrap intervals over groups; protocol "
        f"«{results.protocol}», classes «{results.task_set}». Classes: evaluable/with images. The spread over seeds is "
        "in summary.csv."
    )


def csv_tables(results: ProbeResults) -> dict[str, str]:
    """Long tables by file name; that of datasets left out of training only where there are any."""
    left_out = _long_table(results, LeftOutDataset, lambda metrics: metrics.left_out_datasets)
    return {
        "summary.csv": _summary(results),
        "classes.csv": _classes(results),
        "subgroups.csv": _long_table(results, SubgroupAuc, lambda metrics: metrics.subgroups, {"name": "subgroup"}),
        "errors.csv": _long_table(results, ConfusedPair, lambda metrics: metrics.confused),
        **({"left_out_datasets.csv": left_out} if left_out.count("\n") > 1 else {}),
    }


def _outcomes(results: ProbeResults) -> Iterator[tuple[str, str, TaskMetrics]]:
    for task, by_network in results.results.items():
        for name, metrics in by_network.items():
            yield task, name, metrics


def _summary(results: ProbeResults) -> str:
    """One row a task and network with every metric of the whole task."""
    rows: list[list[object]] = []
    for task, name, metrics in _outcomes(results):
        calibration = metrics.calibration
        seeds = metrics.seeds
        of_seeds = (None,) * 3 if seeds is None else (len(seeds.values), seeds.mean, seeds.deviation)
        rows.append(
            [
                *(task, name, results.protocol, metrics.images, metrics.groups, metrics.auc.classes),
                *(metrics.auc.macro, metrics.auc.low, metrics.auc.high),
                *(getattr(metrics, metric) for metric in SUMMARY),
                *(calibration.before.ece, calibration.before.brier, calibration.after.ece),
                *(calibration.after.brier, calibration.temperature),
                *_of_subset(metrics.without_pretraining_overlap),
                *_of_subset(metrics.without_poor_images),
                *of_seeds,
                *(metrics.chosen.head, metrics.chosen.validation_auc),
            ]
        )
    columns = [
        *("task", "model", "protocol", "images", "groups", "classes", "auc", "auc_low", "auc_high", *SUMMARY),
        *("ece", "brier", "ece_scaled", "brier_scaled", "temperature"),
        *("unseen_images", "unseen_auc", "unseen_auc_low", "unseen_auc_high"),
        *("good_quality_images", "good_quality_auc", "good_quality_auc_low", "good_quality_auc_high"),
        *("seeds", "auc_mean_of_seeds", "auc_deviation_of_seeds", "head", "validation_auc"),
    ]
    return _csv(columns, rows)


def _of_subset(found: SubsetAuc | None) -> tuple[object, ...]:
    return (None,) * 4 if found is None else (found.images, found.macro, found.low, found.high)


def _classes(results: ProbeResults) -> str:
    """One row a task, network, level and class."""
    columns = ["task", "model", "level", "class", *(item.name for item in fields(ClassMetrics))]
    rows = [
        [task, name, *_level_and_class(class_name, of_network), *astuple(metrics)]
        for task, name, of_network in _outcomes(results)
        for class_name, metrics in of_network.per_class.items()
    ]
    return _csv(columns, rows)


def _level_and_class(name: str, metrics: TaskMetrics) -> tuple[str, str]:
    level, _, rest = name.partition(":")
    return (level, rest) if level in metrics.levels else ("", name)


def _long_table(
    results: ProbeResults,
    kind: type[DataclassInstance],
    parts: Callable[[TaskMetrics], Sequence[DataclassInstance]],
    titles: Mapping[str, str] | None = None,
) -> str:
    """One row a part of every task and network: all its fields but lists; an estimate takes three columns."""
    shown = [item for item in fields(kind) if not str(item.type).startswith("list")]
    columns = ["task", "model"]
    for item in shown:
        title = (titles or {}).get(item.name, item.name)
        columns += [title, f"{title}_low", f"{title}_high"] if item.type == "Estimate" else [title]
    rows = []
    for task, name, metrics in _outcomes(results):
        for part in parts(metrics):
            values = [getattr(part, item.name) for item in shown]
            cells = [astuple(value) if isinstance(value, Estimate) else (value,) for value in values]
            rows.append([task, name, *(cell for of_value in cells for cell in of_value)])
    return _csv(columns, rows)


def _csv(columns: list[str], rows: list[list[object]]) -> str:
    return csv_text(columns, [[f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows])
