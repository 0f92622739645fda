"""Every figure with its bootstrap draws. The same pictures are drawn for everybody, so that differences are paired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.statistics.intervals import group_weights, percentile_interval
from panendofm.scoring.statistics.replicates import (
    macro_f1_replicates,
    macro_replicates,
    mean_replicates,
    reader_shares,
)
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.lesion_config import NEGATIVE
from panendofm.vqa.score.gi_bench.sheets import Sheet

Floats = NDArray[np.float64]
# The value of one picture in a column; choices are averaged over classes, overlaps and ratings over pictures.
COLUMNS = ("q1", "q2", "q3", "q4", "q5")
# Figures that are made of a column: its mean, shares above a threshold, F1 over the options that were chosen.
FIGURES = {
    "q1": "q1", "q1_region_macro_f1": "q1", "q2": "q2", "q2_recall_0_5": "q2", "q2_recall_0_75": "q2",
    "q3": "q3", "q3_macro_f1": "q3", "q4": "q4", "q5": "q5",
}  # fmt: skip
_F1 = ("q1_region_macro_f1", "q3_macro_f1")
_THRESHOLDS = {"q2_recall_0_5": 0.5, "q2_recall_0_75": 0.75}


@dataclass(frozen=True)
class Columns:
    """The questions that are scored, by column, lesions apart from pictures without one."""

    lesions: dict[str, list[Item]]
    negatives: list[Item]  # box questions of pictures without a lesion
    draws: int = 0

    @cached_property
    def weights(self) -> dict[str, Floats]:
        """How often each picture of a column is drawn [R, N], in whole groups; the same for all contestants."""
        return {name: self._weights(items) for name, items in self.lesions.items()}

    def _weights(self, items: Sequence[Item]) -> Floats:
        groups = np.unique([item.group for item in items], return_inverse=True)[1].astype(np.int64)
        return group_weights(groups, self.draws, 0)

    def readers(self, count: int) -> Floats:
        """What each of a group's readers counts in each draw [R, count]."""
        return reader_shares(count, self.draws, 1)


def columns_of(items: Iterable[Item], draws: int = 0) -> Columns:
    lesions: dict[str, list[Item]] = defaultdict(list)
    negatives = []
    for item in items:
        if item.entity != NEGATIVE:
            lesions[item.task.lower()].append(item)
        elif item.task == "Q2":
            negatives.append(item)
    return Columns(dict(lesions), negatives, draws)


@dataclass(frozen=True)
class Estimate:
    """A figure, and what it is in each draw [R]."""

    n: int
    classes: int
    value: float
    drawn: Floats

    @property
    def interval(self) -> list[float] | None:
        found = percentile_interval(self.drawn)
        return None if found is None else [found.low, found.high]


def known_values(sheet: Sheet, figure: str, columns: Columns) -> NDArray[np.bool_]:
    """Which pictures of the figure's column have a value [N]; a text that nobody rated has none."""
    column = FIGURES[figure]
    return np.array([sheet.value(column, item) is not None for item in columns.lesions.get(column, [])], bool)


def estimate(sheet: Sheet, figure: str, columns: Columns, where: NDArray[np.bool_] | None = None) -> Estimate | None:
    """One figure of a contestant, on some pictures of its column [N] or on all that have a value."""
    column = FIGURES[figure]
    known = known_values(sheet, figure, columns) if where is None else where
    if not known.any():
        return None
    items = [item for item, use in zip(columns.lesions[column], known, strict=True) if use]
    # The first row is the figure itself, the others are the draws.
    weights = np.concatenate([np.ones((1, len(items))), columns.weights[column][:, known]])
    rows = _replicates(sheet, figure, items, weights)
    return Estimate(len(items), len({item.entity for item in items}), float(rows[0]), rows[1:])


def _replicates(sheet: Sheet, figure: str, items: Sequence[Item], weights: Floats) -> Floats:
    if figure in _F1:
        gold = [item.answer_text for item in items]
        return macro_f1_replicates(gold, [sheet.chosen(item) for item in items], weights)
    values = picture_values(sheet, figure, items)
    if figure in ("q1", "q3"):
        return macro_replicates(values, [item.entity for item in items], weights)
    return mean_replicates(values, weights)


def picture_values(sheet: Sheet, figure: str, items: Sequence[Item]) -> Floats:
    """Values [N] of pictures that all have one."""
    values = np.array([sheet.value(FIGURES[figure], item) for item in items], float)
    threshold = _THRESHOLDS.get(figure)
    return values if threshold is None else (values >= threshold - 1e-12).astype(float)


def class_values(sheet: Sheet, figure: str, columns: Columns, key: str = "entity") -> dict[str, float]:
    """Mean value of each class (or site: key=scene); a picture that wasn't rated doesn't count."""
    known = known_values(sheet, figure, columns)
    items = [item for item, use in zip(columns.lesions.get(FIGURES[figure], []), known, strict=True) if use]
    by_class: dict[str, list[float]] = defaultdict(list)
    for item, value in zip(items, picture_values(sheet, figure, items), strict=True):
        by_class[getattr(item, key)].append(float(value))
    return {name: float(np.mean(values)) for name, values in by_class.items()}


def difference(model: Sheet, readers: Sequence[Sheet], figure: str, columns: Columns) -> dict[str, Any] | None:
    """Model minus the mean of readers on the pictures that all have, drawn over pictures and readers alike."""
    known = np.logical_and.reduce([known_values(sheet, figure, columns) for sheet in (model, *readers)])
    mine = estimate(model, figure, columns, known)
    if mine is None:
        return None
    theirs = [own for reader in readers if (own := estimate(reader, figure, columns, known)) is not None]
    value, drawn = mean_of(theirs, columns)
    gap = Estimate(mine.n, mine.classes, mine.value - value, mine.drawn - drawn)
    return {"n": gap.n, "difference": gap.value, "interval": gap.interval}


def mean_of(readers: Sequence[Estimate], columns: Columns) -> tuple[float, Floats]:
    """The readers' mean, and in each draw that of the readers who were drawn."""
    table = np.stack([reader.drawn for reader in readers], axis=1)  # [R, readers]
    return float(np.mean([reader.value for reader in readers])), (columns.readers(len(readers)) * table).sum(axis=1)
