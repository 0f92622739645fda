"""Groups of readers in the table, and models against them: exact tests over classes, corrected in each column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from scoring.intervals import group_weights, percentile_interval
from scoring.paired_tests import holm, sign_flip
from vqa.bench.items import Item
from vqa.score.lesions import COLUMNS, Columns, Sheet, class_values, macro

MARKS = "*†‡§"
LEVEL = 0.05


def group_figures(name: str, readers: Sequence[Sheet], columns: Columns, draws: int) -> dict[str, Any]:
    """The mean of a group's readers, with intervals over pictures and readers."""
    figures: dict[str, Any] = {"name": name, "kind": "people", "readers": len(readers), "by_class": {}}
    for column in COLUMNS:
        items = columns.lesions.get(column, [])
        own = [values for reader in readers if (values := class_values(reader, items, column))]
        if not own:
            continue
        classes = sorted(set.intersection(*(set(values) for values in own)))
        figures["by_class"][column] = {c: float(np.mean([values[c] for values in own])) for c in classes}
        figures[column] = _mean_of_readers(readers, items, column, draws)
    return figures


def _mean_of_readers(readers: Sequence[Sheet], items: Sequence[Item], column: str, draws: int) -> dict[str, Any]:
    table = [[reader.value(column, item) for item in items] for reader in readers]
    rated = [n for n in range(len(items)) if all(row[n] is not None for row in table)]
    values = np.array([[row[n] for n in rated] for row in table], float)  # [readers, pictures]
    if not values.size:
        return {"n": 0, "mean": None, "interval": None, "note": "no picture that all readers answered"}
    classes = np.unique([items[n].entity for n in rated], return_inverse=True)[1]
    over_pictures = column in ("q2", "q4", "q5")
    single = [float(row.mean()) if over_pictures else macro(row, classes) for row in values]
    result: dict[str, Any] = {"n": len(rated), "mean": float(np.mean(single)), "by_reader": single, "interval": None}
    if draws:
        groups = np.unique([items[n].group for n in rated], return_inverse=True)[1].astype(np.int64)
        pictures = group_weights(groups, draws, 0)
        people = group_weights(np.arange(len(readers)), draws, 1) / len(readers)
        drawn = []
        for weights, mix in zip(pictures, people, strict=True):
            mean = mix @ values  # [pictures]
            if over_pictures:
                drawn.append(float(mean @ weights / weights.sum()))
            else:
                counts = np.bincount(classes, weights=weights)
                sums = np.bincount(classes, weights=weights * mean)
                drawn.append(float(np.mean(sums[counts > 0] / counts[counts > 0])))
        interval = percentile_interval(np.array(drawn))
        result["interval"] = None if interval is None else [interval.low, interval.high]
    if len(readers) == 1:
        result["note"] = "one reader: the interval is over pictures alone"
    return result


def against_groups(models: Sequence[dict[str, Any]], groups: Sequence[dict[str, Any]]) -> None:
    """Add to each model its p-values against each group: sign flips over classes, Holm within a column and group."""
    for group in groups:
        for column in COLUMNS:
            raw: dict[str, float] = {}
            for model in models:
                mine, theirs = model["by_class"].get(column, {}), group["by_class"].get(column, {})
                common = sorted(set(mine) & set(theirs))
                if len(common) >= 2:
                    raw[model["name"]] = sign_flip([mine[c] - theirs[c] for c in common])
            corrected = holm(raw)
            for model in models:
                if model["name"] in raw:
                    entry = model.setdefault("against", defaultdict(dict))[group["name"]]
                    entry[column] = {"p": raw[model["name"]], "p_holm": corrected[model["name"]]}


def marks_of(row: dict[str, Any], column: str, groups: Sequence[str]) -> str:
    """A mark for each group that the row differs from in this column."""
    against = row.get("against", {})
    return "".join(
        mark
        for mark, group in zip(MARKS, groups, strict=False)
        if against.get(group, {}).get(column, {}).get("p_holm", 1.0) < LEVEL
    )
