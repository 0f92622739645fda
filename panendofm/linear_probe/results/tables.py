"""The table of the paper, one row a task and one column a network, in several formats; and long tables as CSV."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from panendofm.linear_probe.results.document import SUMMARY, ClassMetrics, MacroAuc, ProbeResults, Uncleaned
from panendofm.reports.numbers import difference, estimate
from panendofm.runtime.csv_files import csv_text

CLEANING_TITLE = "Macro-AUC: images cleaned as training frames are, and as they came"
NOT_EVALUABLE = "not evaluable"


@dataclass(frozen=True)
class TextTable:
    """Columns and cells; `best` are cells (row, column) that are the best of their row."""

    columns: list[str]
    rows: list[list[str]]
    best: frozenset[tuple[int, int]] = frozenset()


def main_table(results: ProbeResults) -> TextTable:
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
    return TextTable(["task", "classes", *names], rows, frozenset(best))


def auc_cell(value: MacroAuc | Uncleaned) -> str:
    return NOT_EVALUABLE if value.macro is None else estimate(value.macro, value.low, value.high)


def cleaning_table(results: ProbeResults) -> TextTable:
    """Cleaned images, the same as they came, and the difference. No rows if nothing was cleaned."""
    rows = []
    for task, by_network in results.results.items():
        for name, metrics in by_network.items():
            raw = metrics.as_they_came
            if raw is not None:
                change = difference(raw.difference, raw.difference_low, raw.difference_high)
                rows.append([results.tasks[task].title, name, auc_cell(metrics.auc), auc_cell(raw), change])
    return TextTable(["task", "network", "cleaned", "as they came", "difference"], rows)


def markdown_table(content: TextTable) -> list[str]:
    lines = ["| " + " | ".join(content.columns) + " |", "|" + "---|" * len(content.columns)]
    for number, row in enumerate(content.rows):
        cells = [f"**{cell}**" if (number, column) in content.best else cell for column, cell in enumerate(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def markdown(results: ProbeResults) -> str:
    lines = [*markdown_table(main_table(results)), "", _caption(results)]
    lines += [f"Not evaluable: {name} ({why})." for name, why in results.not_evaluable.items()]
    cleaning = cleaning_table(results)
    if cleaning.rows:
        lines += ["", f"{CLEANING_TITLE}:", "", *markdown_table(cleaning)]
    return "\n".join(lines) + "\n"


def _caption(results: ProbeResults) -> str:
    return (
        f"Macro-AUC on the test side with {100 * results.confidence:g}% bootstrap intervals over groups; protocol "
        f"«{results.protocol}». Classes: evaluable/with images."
    )


def latex(results: ProbeResults) -> str:
    content = main_table(results)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(_caption(results))}}}",
        rf"\begin{{tabular}}{{ll{'c' * (len(content.columns) - 2)}}}",
        r"\hline",
        " & ".join(_escape(cell) for cell in content.columns) + r" \\",
        r"\hline",
    ]
    for number, row in enumerate(content.rows):
        cells = []
        for column, cell in enumerate(row):
            indent = r"\quad " if cell.startswith("  ") else ""
            bold = (number, column) in content.best
            cells.append(rf"\textbf{{{_escape(cell)}}}" if bold else indent + _escape(cell.strip()))
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}"]) + "\n"


_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "«": "``", "»": "''", "–": "--", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}
)


def _escape(text: str) -> str:
    return text.translate(_LATEX)


def summary_csv(results: ProbeResults) -> str:
    """One row a task and network with every metric of the whole task."""
    rows: list[list[object]] = []
    for task, by_network in results.results.items():
        for name, metrics in by_network.items():
            calibration = metrics.calibration
            unseen = metrics.without_pretraining_overlap
            of_unseen = (None,) * 4 if unseen is None else (unseen.images, unseen.macro, unseen.low, unseen.high)
            rows.append(
                [
                    *(task, name, results.protocol, metrics.images, metrics.groups, metrics.auc.classes),
                    *(metrics.auc.macro, metrics.auc.low, metrics.auc.high),
                    *(getattr(metrics, metric) for metric in SUMMARY),
                    *(calibration.before.ece, calibration.before.brier, calibration.after.ece),
                    *(calibration.after.brier, calibration.temperature, *of_unseen),
                    *(metrics.chosen.head, metrics.chosen.validation_auc),
                ]
            )
    columns = [
        *("task", "model", "protocol", "images", "groups", "classes", "auc", "auc_low", "auc_high", *SUMMARY),
        *("ece", "brier", "ece_scaled", "brier_scaled", "temperature"),
        *("unseen_images", "unseen_auc", "unseen_auc_low", "unseen_auc_high", "head", "validation_auc"),
    ]
    return _csv(columns, rows)


def classes_csv(results: ProbeResults) -> str:
    """One row a task, network and class."""
    columns = ["task", "model", "class", *(item.name for item in fields(ClassMetrics))]
    rows = [
        [task, name, class_name, *astuple(metrics)]
        for task, by_network in results.results.items()
        for name, of_network in by_network.items()
        for class_name, metrics in of_network.per_class.items()
    ]
    return _csv(columns, rows)


def _csv(columns: list[str], rows: list[list[object]]) -> str:
    return csv_text(columns, [[f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows])
