"""Groups of readers in the table, and models against them: exact tests over classes, corrected in each column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from panendofm.scoring.statistics.paired_tests import holm, sign_flip
from panendofm.vqa.score.gi_bench.estimates import (
    COLUMNS,
    FIGURES,
    Columns,
    Estimate,
    class_values,
    difference,
    estimate,
    known_values,
    mean_of,
)
from panendofm.vqa.score.gi_bench.metrics import diagnosis_f1
from panendofm.vqa.score.gi_bench.sheets import Sheet

MARKS = "*†‡§"
LEVEL = 0.05
# Figures that have a value for each class, and so a test over classes; Q1's F1 has one for each site only.
TESTED = tuple(name for name in FIGURES if name != "q1_region_macro_f1")
# What a group shows beside: the plain mean of its readers.
_AVERAGED = ("q1_f1_published", "q2_valid_rate", "q2_miou_best_match", "specificity", "seconds")


def group_figures(
    name: str, readers: Sequence[Sheet], rows: Sequence[dict[str, Any]], columns: Columns
) -> dict[str, Any]:
    """The mean of a group's readers, with intervals over pictures and readers."""
    figures: dict[str, Any] = {"name": name, "kind": "people", "readers": len(readers), "by_class": {}, "intervals": {}}
    for figure in FIGURES:
        known = np.logical_and.reduce([known_values(reader, figure, columns) for reader in readers])
        own = [found for reader in readers if (found := estimate(reader, figure, columns, known)) is not None]
        if not own:
            continue
        value, drawn = mean_of(own, columns)
        whole = Estimate(own[0].n, own[0].classes, value, drawn)
        figures["intervals"][figure] = whole.interval
        if figure not in COLUMNS:
            figures[figure] = value
            continue
        figures["by_class"][figure] = _class_means(readers, figure, columns)
        figures[figure] = {
            "n": whole.n, "classes": whole.classes, "mean": value, "interval": whole.interval,
            "by_reader": [reader.value for reader in own],
        }  # fmt: skip
        if len(readers) == 1:
            figures[figure]["note"] = "one reader: the interval is over pictures alone"
    for key in _AVERAGED:
        values = [row[key] for row in rows if row.get(key) is not None]
        if values:
            figures[key] = float(np.mean(values))
    rates = [row["answer_rate"] for row in rows]
    figures["answer_rate"] = {column: float(np.mean([rate[column] for rate in rates])) for column in rates[0]}
    return figures


def _class_means(readers: Sequence[Sheet], figure: str, columns: Columns) -> dict[str, float]:
    """Mean over readers of each class's value; classes that a reader has no value of are left out."""
    if figure == "q3_macro_f1":
        own = [diagnosis_f1(reader, columns) for reader in readers]
    else:
        own = [class_values(reader, figure, columns) for reader in readers]
    classes = sorted(set.intersection(*(set(values) for values in own)))
    return {name: float(np.mean([values[name] for values in own])) for name in classes}


def against_groups(
    models: Sequence[tuple[dict[str, Any], Sheet]], groups: Mapping[str, Sequence[Sheet]], columns: Columns
) -> None:
    """Add to each model's row its difference from each group and the p-value of sign flips over classes.

    Holm's correction is over all models and groups of a column.
    """
    for figure in FIGURES:
        raw: dict[str, float] = {}
        entries: dict[str, dict[str, Any]] = {}
        for group, readers in groups.items():
            theirs = _class_means(readers, figure, columns) if figure in TESTED else {}
            for row, sheet in models:
                entry = difference(sheet, readers, figure, columns)
                if entry is None:
                    continue
                key = f"{row['name']}\n{group}"
                entries[key] = row.setdefault("against", defaultdict(dict))[group][figure] = entry
                mine = _class_means([sheet], figure, columns) if theirs else {}
                common = sorted(set(mine) & set(theirs))
                if len(common) >= 2:
                    raw[key] = sign_flip([mine[name] - theirs[name] for name in common])
        corrected = holm(raw)
        for key, p in raw.items():
            entries[key] |= {"p": p, "p_holm": corrected[key]}


def marks_of(row: dict[str, Any], figure: str, groups: Sequence[str]) -> str:
    """A mark for each group that the row differs from in this column."""
    against = row.get("against", {})
    return "".join(
        mark
        for mark, group in zip(MARKS, groups, strict=False)
        if against.get(group, {}).get(figure, {}).get("p_holm", 1.0) < LEVEL
    )
