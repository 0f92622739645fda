"""How a question type is measured: metrics that a declaration lists, each with its bootstrap replicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.scoring.answers.choices import class_f1
from panendofm.scoring.statistics.replicates import macro_f1_replicates, macro_replicates, mean_replicates
from panendofm.vqa.bench.items import Item
from panendofm.vqa.score.sheets import Floats, Sheet

Items = Sequence[Item]
_EXACT = 1e-12  # an overlap of exactly the threshold reaches it


@dataclass(frozen=True)
class Metric:
    """`replicates`: the metric under each row of weights [R, N]. `by_class`: of each class; compared with readers."""

    name: str
    title: str
    replicates: Callable[[Sheet, Items, Floats], Floats]
    by_class: Callable[[Sheet, Items], dict[str, float]] | None = None
    by_site: Callable[[Sheet, Items], dict[str, float]] | None = None
    high: float = 1.0  # the best value there is


@dataclass(frozen=True)
class PlainMetric:
    """A number beside the metrics, without interval; `ceiling` is what a contestant without a mistake gets."""

    name: str
    title: str
    value: Callable[[Sheet, Items], float]
    ceiling: Callable[[Items], float] | None = None


def _means(values: Floats, names: Sequence[str]) -> dict[str, float]:
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, value in zip(names, values, strict=True):
        by_name[name].append(float(value))
    return {name: float(np.mean(own)) for name, own in by_name.items()}


def class_means(sheet: Sheet, items: Items) -> dict[str, float]:
    return _means(sheet.values(items), [item.entity for item in items])


def site_means(sheet: Sheet, items: Items) -> dict[str, float]:
    return _means(sheet.values(items), [item.scene for item in items])


def macro_accuracy(name: str, title: str) -> Metric:
    """Mean over classes of each one's share of right answers."""

    def replicates(sheet: Sheet, items: Items, weights: Floats) -> Floats:
        return macro_replicates(sheet.values(items), [item.entity for item in items], weights)

    return Metric(name, title, replicates, class_means, site_means)


def mean(name: str, title: str, high: float = 1.0) -> Metric:
    """Mean value over images: overlaps, ratings."""

    def replicates(sheet: Sheet, items: Items, weights: Floats) -> Floats:
        return mean_replicates(sheet.values(items), weights)

    return Metric(name, title, replicates, class_means, site_means, high)


def recall(name: str, title: str, threshold: float) -> Metric:
    """Share of images whose value reaches the threshold."""

    def reached(sheet: Sheet, items: Items) -> Floats:
        return (sheet.values(items) >= threshold - _EXACT).astype(np.float64)

    def replicates(sheet: Sheet, items: Items, weights: Floats) -> Floats:
        return mean_replicates(reached(sheet, items), weights)

    def by_class(sheet: Sheet, items: Items) -> dict[str, float]:
        return _means(reached(sheet, items), [item.entity for item in items])

    return Metric(name, title, replicates, by_class)


def macro_f1(name: str, title: str, by_class: bool = True) -> Metric:
    """F1 over the options that are right; they are the classes where `by_class`, and may be compared one by one."""

    def replicates(sheet: Sheet, items: Items, weights: Floats) -> Floats:
        return macro_f1_replicates(
            [item.answer_text for item in items], [sheet.chosen(item) for item in items], weights
        )

    return Metric(name, title, replicates, class_f1_of if by_class else None)


def class_f1_of(sheet: Sheet, items: Items) -> dict[str, float]:
    return class_f1([item.answer_text for item in items], [sheet.chosen(item) for item in items])
