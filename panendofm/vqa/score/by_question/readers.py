"""Groups of readers in the table, and models against them: exact tests over classes, corrected in each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from panendofm.scoring.statistics.intervals import percentile_interval
from panendofm.scoring.statistics.paired_tests import holm, sign_flip
from panendofm.vqa.client.answers import PEOPLE
from panendofm.vqa.score.by_question.estimates import Columns, difference, estimate, known_by_all, known_items, mean_of
from panendofm.vqa.score.by_question.results import BoxMetrics, Difference, MetricValue, PlainValue, Row
from panendofm.vqa.score.metric import Metric
from panendofm.vqa.score.sheets import Sheet

MARKS = "*†‡§"
LEVEL = 0.05


def group_row(name: str, readers: Sequence[Sheet], rows: Sequence[Row], columns: Columns) -> Row:
    """The mean of a group's readers, with intervals over images and readers (over images alone for one reader)."""
    group = Row(name, PEOPLE, readers=len(readers))
    for code, metric in columns.metrics:
        known = known_by_all(readers, code, columns)
        own = [found for reader in readers if (found := estimate(reader, code, metric, columns, known)) is not None]
        if not own:
            continue
        value, drawn = mean_of(own, columns)
        interval = percentile_interval(drawn, columns.bootstrap.confidence)
        by_reader = [reader.value for reader in own]
        group.metrics[metric.name] = MetricValue(own[0].n, own[0].classes, value, interval, by_reader)
        if metric.by_class is not None:
            group.by_class[metric.name] = _class_means(readers, code, metric, columns)
    # Beside these the plain means of the readers.
    for plain in {name for row in rows for name in row.plain}:
        group.plain[plain] = PlainValue(_mean([row.plain[plain].value for row in rows]) or 0.0)
    for code in {code for row in rows for code in row.boxes}:
        boxes = [row.boxes[code] for row in rows]
        group.boxes[code] = BoxMetrics(
            _mean([own.valid_rate for own in boxes]),
            _mean([own.best_match for own in boxes]),
            _mean([own.specificity for own in boxes]),
        )
    group.seconds = _mean([row.seconds for row in rows])
    for code in rows[0].answer_rate:
        group.answer_rate[code] = _mean([row.answer_rate[code] for row in rows]) or 0.0
    return group


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _class_means(readers: Sequence[Sheet], code: str, metric: Metric, columns: Columns) -> dict[str, float]:
    """Mean over readers of each class's value; classes that a reader has no value of are left out."""
    if metric.by_class is None:
        return {}
    own = [metric.by_class(reader, known_items(reader, code, columns)) for reader in readers]
    classes = sorted(set.intersection(*(set(values) for values in own)))
    return {name: float(np.mean([values[name] for values in own])) for name in classes}


def compare_with_groups(
    models: Sequence[tuple[Row, Sheet]], groups: Mapping[str, Sequence[Sheet]], columns: Columns
) -> None:
    """Add to each model's row its difference from each group and the p-value of sign flips over classes.

    Holm's correction is over all models and groups of a metric.
    """
    for code, metric in columns.metrics:
        compared = compare_column([sheet for _, sheet in models], groups, code, metric, columns)
        for (number, group), gap in compared.items():
            models[number][0].against.setdefault(group, {})[metric.name] = gap


def compare_column(
    models: Sequence[Sheet], groups: Mapping[str, Sequence[Sheet]], code: str, metric: Metric, columns: Columns
) -> dict[tuple[int, str], Difference]:
    """One metric of every model (by number) less that of every group, corrected over all of these pairs."""
    found: dict[tuple[int, str], Difference] = {}
    raw: dict[tuple[int, str], float] = {}
    for group, readers in groups.items():
        theirs = _class_means(readers, code, metric, columns)
        for number, sheet in enumerate(models):
            gap = difference(sheet, readers, code, metric, columns)
            if gap is None:
                continue
            found[number, group] = gap
            mine = _class_means([sheet], code, metric, columns)
            common = sorted(set(mine) & set(theirs))
            if len(common) >= 2:
                raw[number, group] = sign_flip([mine[name] - theirs[name] for name in common])
    corrected = holm({f"{number}\n{group}": p for (number, group), p in raw.items()})
    return {
        (number, group): replace(gap, p=raw[number, group], p_holm=corrected[f"{number}\n{group}"])
        if (number, group) in raw
        else gap
        for (number, group), gap in found.items()
    }


def marks_of(gaps: Mapping[str, Difference | None], groups: Sequence[str]) -> str:
    """A mark for each group that a row differs from, by its difference from each."""
    marks = ""
    for mark, group in zip(MARKS, groups, strict=False):
        gap = gaps.get(group)
        if gap is not None and gap.p_holm is not None and gap.p_holm < LEVEL:
            marks += mark
    return marks
