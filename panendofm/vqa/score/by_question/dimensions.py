"""Each dimension of the rubric on its own: mean, spread and interval of contestants and groups, and tests between them.

A contrast is a column too: one dimension less another of the same text, such as language less accuracy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from panendofm.scoring.statistics.intervals import percentile_interval
from panendofm.vqa.people.rubric import HIGHEST, Rubric
from panendofm.vqa.score.by_question.estimates import Columns, estimate, known_by_all, known_items, mean_of
from panendofm.vqa.score.by_question.readers import compare_column
from panendofm.vqa.score.by_question.results import DimensionValue, Row
from panendofm.vqa.score.metric import Metric, mean
from panendofm.vqa.score.sheets import Sheet


@dataclass(frozen=True)
class _Column:
    """One dimension of one text question; sheets then hold its ratings alone."""

    code: str
    name: str
    metric: Metric

    def sheet(self, sheet: Sheet) -> Sheet:
        return replace(sheet, ratings=sheet.dimensions.get(self.name, {}))


def add_dimensions(
    rows: Sequence[tuple[Row, Sheet]],
    groups: Sequence[tuple[Row, Sequence[Sheet]]],
    models: Sequence[tuple[Row, Sheet]],
    rubric: Rubric,
    columns: Columns,
) -> None:
    """Fill `dimensions` of contestants and groups of readers, and the models' differences from the groups."""
    for column in _columns(rubric, columns):
        for row, sheet in rows:
            own = _value(column.sheet(sheet), column, columns)
            if own is not None:
                row.dimensions.setdefault(column.code, {})[column.name] = own
        readers = {row.name: [column.sheet(sheet) for sheet in sheets] for row, sheets in groups}
        for row, _ in groups:
            group = _group_value(readers[row.name], column, columns)
            if group is not None:
                row.dimensions.setdefault(column.code, {})[column.name] = group
        _compare(column, models, readers, columns)


def _columns(rubric: Rubric, columns: Columns) -> list[_Column]:
    texts = [question.code for question in columns.questions if question.kind.rated and columns.items(question.code)]
    return [_Column(code, name, mean(name, title, HIGHEST)) for code in texts for name, title in rubric.columns]


def _value(sheet: Sheet, column: _Column, columns: Columns) -> DimensionValue | None:
    found = estimate(sheet, column.code, column.metric, columns)
    if found is None:
        return None
    values = sheet.values(known_items(sheet, column.code, columns))
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return DimensionValue(found.n, found.value, spread, found.interval, _counts(values.tolist()))


def _group_value(readers: Sequence[Sheet], column: _Column, columns: Columns) -> DimensionValue | None:
    """The readers' mean; `sd` is over the readers' means, as the paper prints it for groups."""
    known = known_by_all(readers, column.code, columns)
    own = [e for reader in readers if (e := estimate(reader, column.code, column.metric, columns, known)) is not None]
    if not own:
        return None
    value, drawn = mean_of(own, columns)
    by_reader = [reader.value for reader in own]
    items = columns.positive[column.code].kept(known)
    values = np.concatenate([reader.values(items) for reader in readers])
    return DimensionValue(
        n=own[0].n,
        mean=value,
        sd=float(np.std(by_reader, ddof=1)) if len(by_reader) > 1 else None,
        interval=percentile_interval(drawn, columns.bootstrap.confidence),
        counts=_counts(values.tolist()),
        by_reader=by_reader,
        sd_over_texts=float(np.std(values, ddof=1)) if len(values) > 1 else None,
    )


def _counts(values: Sequence[float]) -> dict[str, int]:
    """How often each value was given; means of several raters are rounded to a thousandth."""
    return dict(sorted(Counter(f"{value:.3f}" for value in values).items(), key=lambda pair: float(pair[0])))


def _compare(
    column: _Column,
    models: Sequence[tuple[Row, Sheet]],
    readers: Mapping[str, Sequence[Sheet]],
    columns: Columns,
) -> None:
    sheets = [column.sheet(sheet) for _, sheet in models]
    for (number, group), gap in compare_column(sheets, readers, column.code, column.metric, columns).items():
        against = models[number][0].dimensions_against.setdefault(group, {})
        against.setdefault(column.code, {})[column.name] = gap
