"""Every metric with its bootstrap replicates. The same images are drawn for everybody: differences are paired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import Interval, percentile_interval
from panendofm.scoring.statistics.replicates import reader_shares
from panendofm.vqa.bench.items import NEGATIVE, Item
from panendofm.vqa.benchmark import Benchmark, QuestionType
from panendofm.vqa.score.by_question.results import Difference
from panendofm.vqa.score.metric import Metric
from panendofm.vqa.score.sheets import Floats, QuestionSet, Sheet


@dataclass(frozen=True)
class Columns:
    """The questions that are scored, by question type; those about images without a lesion are kept apart."""

    questions: tuple[QuestionType, ...]
    positive: dict[str, QuestionSet]
    negative: dict[str, list[Item]]
    bootstrap: BootstrapConfig

    def items(self, code: str) -> list[Item]:
        return self.positive[code].items if code in self.positive else []

    @property
    def metrics(self) -> list[tuple[str, Metric]]:
        """All metrics with the code of their question type."""
        return [(question.code, metric) for question in self.questions for metric in question.metrics]

    @property
    def own_metrics(self) -> list[tuple[str, Metric]]:
        """The first metric of each question type, which has a value for every image."""
        return [(question.code, question.metrics[0]) for question in self.questions if question.metrics]

    def asked_of_all(self, sheets: Sequence[Sheet]) -> Columns:
        """Only the questions that every sheet was asked: what was not asked is no mistake."""
        kept = {}
        for code, own in self.positive.items():
            items = [item for item in own.items if all(sheet.asked(item) for sheet in sheets)]
            if items:
                kept[code] = QuestionSet(items, self.bootstrap)
        return replace(self, positive=kept)

    def readers(self, count: int) -> Floats:
        """What each of a group's readers counts in each replicate [R, count]."""
        return reader_shares(count, self.bootstrap.replicates, self.bootstrap.seed + 1)


def columns_of(benchmark: Benchmark, items: Iterable[Item], bootstrap: BootstrapConfig | None = None) -> Columns:
    own = bootstrap or BootstrapConfig(replicates=0)
    positive: dict[str, list[Item]] = {}
    negative: dict[str, list[Item]] = {}
    for item in items:
        side = negative if item.entity == NEGATIVE else positive
        side.setdefault(item.subtask, []).append(item)
    sets = {code: QuestionSet(asked, own) for code, asked in positive.items()}
    return Columns(benchmark.questions, sets, negative, own)


@dataclass(frozen=True)
class Estimate:
    """A metric, and what it is in each replicate [R]."""

    n: int
    classes: int
    value: float
    drawn: Floats
    confidence: float

    @property
    def interval(self) -> Interval | None:
        return percentile_interval(self.drawn, self.confidence)


def known_values(sheet: Sheet, code: str, columns: Columns) -> NDArray[np.bool_]:
    """Which questions of a type have a value [N]; a text that nobody rated has none."""
    return np.array([sheet.value(item) is not None for item in columns.items(code)], bool)


def known_by_all(sheets: Sequence[Sheet], code: str, columns: Columns) -> NDArray[np.bool_]:
    return np.asarray(np.logical_and.reduce([known_values(sheet, code, columns) for sheet in sheets]), bool)


def estimate(
    sheet: Sheet, code: str, metric: Metric, columns: Columns, where: NDArray[np.bool_] | None = None
) -> Estimate | None:
    """One metric of a contestant, on some questions of its type [N] or on all that have a value."""
    known = known_values(sheet, code, columns) if where is None else where
    if not known.any():
        return None
    items = columns.positive[code].kept(known)
    # The first row is the metric itself, the others are the replicates.
    weights = np.concatenate([np.ones((1, len(items))), columns.positive[code].weights[:, known]])
    rows = metric.replicates(sheet, items, weights)
    classes = len({item.entity for item in items})
    return Estimate(len(items), classes, float(rows[0]), rows[1:], columns.bootstrap.confidence)


def known_items(sheet: Sheet, code: str, columns: Columns) -> list[Item]:
    return [item for item in columns.items(code) if sheet.value(item) is not None]


def difference(
    model: Sheet, readers: Sequence[Sheet], code: str, metric: Metric, columns: Columns
) -> Difference | None:
    """Model minus the mean of readers on the images that all have, drawn over images and readers alike."""
    known = known_by_all([model, *readers], code, columns)
    mine = estimate(model, code, metric, columns, known)
    if mine is None:
        return None
    theirs = [own for reader in readers if (own := estimate(reader, code, metric, columns, known)) is not None]
    value, drawn = mean_of(theirs, columns)
    gap = replace(mine, value=mine.value - value, drawn=mine.drawn - drawn)
    return Difference(gap.n, gap.value, gap.interval)


def mean_of(readers: Sequence[Estimate], columns: Columns) -> tuple[float, Floats]:
    """The readers' mean, and in each replicate that of the readers who were drawn."""
    table = np.stack([reader.drawn for reader in readers], axis=1)  # [R, readers]
    return float(np.mean([reader.value for reader in readers])), (columns.readers(len(readers)) * table).sum(axis=1)
