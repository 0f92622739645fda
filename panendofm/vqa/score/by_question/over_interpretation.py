"""Texts that say more than the image shows: how often, by judge and by people, under a rubric of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from panendofm.reports import Table
from panendofm.reports.numbers import MISSING, with_interval
from panendofm.scoring.classification.rates import ratio
from panendofm.vqa.people.ratings import Rating
from panendofm.vqa.people.rubric import Rubric
from panendofm.vqa.score.by_question.estimates import Columns
from panendofm.vqa.score.by_question.results import Pair, Part, SaidTooMuch
from panendofm.vqa.score.by_question.texts import JUDGE
from panendofm.vqa.score.sheets import QuestionSet, Sheet

PEOPLE, MODEL = "people", "judge"


def said_too_much(
    sheet: Sheet, ratings: Sequence[Rating], rubric: Rubric, columns: Columns
) -> dict[str, dict[str, SaidTooMuch]]:
    """By code of the text and by who rated: the share of texts with any such remark, with its interval."""
    given: dict[tuple[str, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        given[MODEL if rating.rater.startswith(JUDGE) else PEOPLE, rating.answer].append(rating)
    key_of = {item_id: key for key, item_id in sheet.text_keys.items()}
    found: dict[str, dict[str, SaidTooMuch]] = {}
    for question in columns.questions:
        for who in (PEOPLE, MODEL):
            items = [item for item in columns.items(question.code) if (who, key_of.get(item.id, "")) in given]
            if not items:
                continue
            weights = QuestionSet(items, columns.bootstrap)
            shares: dict[str, float] = {}
            intervals: dict[str, Pair | None] = {}
            for name in rubric.names:
                any_ = np.array(
                    [
                        np.mean([(own.values.get(name) or rubric.low) > rubric.low for own in given[who, key_of[i.id]]])
                        for i in items
                    ],
                    np.float64,
                )
                shares[name] = float(any_.mean())
                drawn = ratio(weights.weights @ any_, weights.weights.sum(axis=1))
                intervals[name] = weights.interval(drawn)
            found.setdefault(question.code, {})[who] = SaidTooMuch(len(items), shares, intervals)
    return found


def said_too_much_table(part: Part, rubric: Rubric) -> Table:
    rows = []
    for row in [*part.rows]:
        for code, by in row.said_too_much.items():
            for who, own in by.items():
                cells = [
                    with_interval(own.shares[name], own.intervals.get(name)) if name in own.shares else MISSING
                    for name in rubric.names
                ]
                rows.append([row.name, code, who, str(own.n), *cells])
    return Table(["contestant", "text", "rated by", "texts", *(own.title for own in rubric.dimensions)], rows)
