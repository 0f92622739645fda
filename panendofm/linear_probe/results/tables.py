"""The table of the paper, one row a task and one column a network, in several languages; and long tables as CSV."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from panendofm.linear_probe.run import Benchmark
from panendofm.runtime.csv_files import csv_text
from panendofm.scoring.statistics.intervals import with_interval

_SUMMARY = (
    "average_precision", "accuracy", "balanced_accuracy", "sensitivity", "specificity", "ppv", "npv", "f1", "mcc",
)  # fmt: skip


def main_table(benchmark: Benchmark) -> tuple[list[str], list[list[str]], list[list[bool]]]:
    """Head, cells, and which cells are the best of their row."""
    names = [model["name"] for model in benchmark.models]
    rows, best = [], []
    for task in benchmark.tasks:
        by_model = benchmark.outcomes[task.name]
        values = [by_model[name].figures["auc"] for name in names]
        top = max(round(v["macro"], 3) for v in values)
        count = benchmark.counts[task.name]
        rows.append([task.title, f"{count['evaluable_classes']}/{count['classes']}", *(_cell(v) for v in values)])
        best.append([False, False, *(len(values) > 1 and round(v["macro"], 3) == top for v in values)])
        for level in by_model[names[0]].figures["levels"]:
            inner = [by_model[name].figures["levels"][level] for name in names]
            rows.append([f"  {level}", str(inner[0]["classes"]), *(_cell(v) for v in inner)])
            known = [round(v["macro"], 3) for v in inner if v["macro"] is not None]
            best.append(
                [False, False, *(len(values) > 1 and bool(known) and _is(v["macro"], max(known)) for v in inner)]
            )
    return ["task", "classes", *names], rows, best


def _is(value: float | None, top: float) -> bool:
    return value is not None and round(value, 3) == top


def _cell(value: dict[str, Any]) -> str:
    if value["macro"] is None:
        return "not evaluable"
    return with_interval(value["macro"], value["low"], value["high"])


def cleaning_table(benchmark: Benchmark) -> tuple[list[str], list[list[str]]]:
    """Head and cells: cleaned pictures, the same as they came, and the difference. No rows if nothing was cleaned."""
    rows = []
    for task in benchmark.tasks:
        for name, outcome in benchmark.outcomes[task.name].items():
            raw = outcome.figures.get("as_they_came")
            if raw is not None:
                rows.append([task.title, name, _cell(outcome.figures["auc"]), _cell(raw), _change(raw)])
    return ["task", "network", "cleaned", "as they came", "difference"], rows


def _change(raw: dict[str, Any]) -> str:
    if raw["difference_low"] is None:
        return f"{raw['difference']:+.3f}"
    return f"{raw['difference']:+.3f} ({raw['difference_low']:+.3f} to {raw['difference_high']:+.3f})"


CLEANING_TITLE = "Macro-AUC: pictures cleaned as training frames are, and as they came"


def markdown(benchmark: Benchmark) -> str:
    head, rows, best = main_table(benchmark)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row, bold in zip(rows, best, strict=True):
        lines.append("| " + " | ".join(f"**{c}**" if b else c for c, b in zip(row, bold, strict=True)) + " |")
    lines += ["", _caption(benchmark)]
    lines += [f"Not evaluable: {name} ({why})." for name, why in benchmark.skipped.items()]
    head, rows = cleaning_table(benchmark)
    if rows:
        lines += ["", f"{CLEANING_TITLE}:", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _caption(benchmark: Benchmark) -> str:
    return (
        f"Macro-AUC on the test side with 95% bootstrap intervals over groups; protocol «{benchmark.protocol}». "
        "Classes: evaluable/with images."
    )


def latex(benchmark: Benchmark) -> str:
    head, rows, best = main_table(benchmark)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(_caption(benchmark))}}}",
        rf"\begin{{tabular}}{{ll{'c' * (len(head) - 2)}}}",
        r"\hline",
        " & ".join(_escape(cell) for cell in head) + r" \\",
        r"\hline",
    ]
    for row, bold in zip(rows, best, strict=True):
        cells = [
            rf"\textbf{{{_escape(c)}}}" if b else (r"\quad " if c.startswith("  ") else "") + _escape(c.strip())
            for c, b in zip(row, bold, strict=True)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", r"\end{table}"]) + "\n"


_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "«": "``", "»": "''", "–": "--", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}
)


def _escape(text: str) -> str:
    return text.translate(_LATEX)


def summary_csv(benchmark: Benchmark) -> str:
    """One row a task and network with every figure of the whole task."""
    rows: list[list[Any]] = []
    for task, by_model in benchmark.outcomes.items():
        for model, outcome in by_model.items():
            f = outcome.figures
            calibration, unseen = f["calibration"], f["without_pretraining_overlap"] or {}
            rows.append(
                [
                    task, model, benchmark.protocol, f["images"], f["groups"], f["auc"]["classes"],
                    f["auc"]["macro"], f["auc"]["low"], f["auc"]["high"], *(f[name] for name in _SUMMARY),
                    calibration["before"]["ece"], calibration["before"]["brier"],
                    calibration["after"]["ece"], calibration["after"]["brier"], calibration["temperature"],
                    unseen.get("images"), unseen.get("macro"), unseen.get("low"), unseen.get("high"),
                    f["chosen"]["head"], f["chosen"]["validation_auc"],
                ]
            )  # fmt: skip
    head = [
        "task", "model", "protocol", "images", "groups", "classes", "auc", "auc_low", "auc_high", *_SUMMARY,
        "ece", "brier", "ece_scaled", "brier_scaled", "temperature",
        "unseen_images", "unseen_auc", "unseen_auc_low", "unseen_auc_high", "head", "validation_auc",
    ]  # fmt: skip
    return _csv(head, rows)


def classes_csv(benchmark: Benchmark) -> str:
    """One row a task, network and class."""
    head = ["task", "model", "class"]
    rows: list[list[Any]] = []
    for task, by_model in benchmark.outcomes.items():
        for model, outcome in by_model.items():
            for name, figures in outcome.figures["per_class"].items():
                if len(head) == 3:
                    head += list(figures)
                rows.append([task, model, name, *figures.values()])
    return _csv(head, rows)


def _csv(head: list[str], rows: list[list[Any]]) -> str:
    return csv_text(head, [[f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows])


def as_json(benchmark: Benchmark) -> dict[str, Any]:
    """Everything but the pictures' raw numbers."""
    return {
        "protocol": benchmark.protocol,
        "models": benchmark.models,
        "tasks": benchmark.counts,
        "not_evaluable": benchmark.skipped,
        "results": {
            task: {model: outcome.figures for model, outcome in by_model.items()}
            for task, by_model in benchmark.outcomes.items()
        },
        "paired_tests": [{k: _none_for_nan(v) for k, v in test.items()} for test in benchmark.paired],
        "split": benchmark.split,
        "levels": {task.name: [asdict(level) for level in task.levels] for task in benchmark.tasks},
    }


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
