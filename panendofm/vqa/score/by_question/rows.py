"""The row of one contestant: metrics, statuses, boxes, texts, error chain, repeated and blind runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.people.ratings import without_disclaimer
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.by_question.boxes import box_metrics
from panendofm.vqa.score.by_question.estimates import Columns, difference, estimate, known_items
from panendofm.vqa.score.by_question.grounding import FOUND
from panendofm.vqa.score.by_question.results import (
    Blind,
    ChainStep,
    MetricValue,
    PlainValue,
    PromptPair,
    Repeats,
    Row,
    TextLengths,
)
from panendofm.vqa.score.by_question.texts import is_chinese
from panendofm.vqa.score.sheets import Contestant, Sheet, accounting

_ANSWERED = ("ok", "none", "invalid_option", "invalid_box")


def row_of(bench: Bench, contestant: Contestant, columns: Columns) -> Row:
    """Everything about one contestant that needs no other."""
    sheet = contestant.plain
    money = accounting(contestant.answers)
    row = Row(sheet.name, sheet.kind, seconds=money.median_latency_s)
    row.accounting = None if contestant.group else money
    for code, metric in columns.metrics:
        found = estimate(sheet, code, metric, columns)
        if found is None:
            continue
        row.metrics[metric.name] = MetricValue(found.n, found.classes, found.value, found.interval)
        items = known_items(sheet, code, columns)
        if metric.by_class is not None:
            row.by_class[metric.name] = metric.by_class(sheet, items)
        if metric.by_site is not None:
            row.by_site[metric.name] = metric.by_site(sheet, items)
    for question in columns.questions:
        _add_question(row, bench, sheet, question.code, columns)
        items = columns.items(question.code)
        for plain in question.plain_metrics if items else ():
            ceiling = None if plain.ceiling is None else plain.ceiling(items)
            row.plain[plain.name] = PlainValue(plain.value(sheet, items), ceiling)
    row.repeats = _repeats(contestant, columns)
    row.blind = _blind(contestant, columns)
    return row


def _add_question(row: Row, bench: Bench, sheet: Sheet, code: str, columns: Columns) -> None:
    """How the replies to one question type could be read, and what depends on their kind."""
    kind = next(question.kind for question in columns.questions if question.code == code)
    items = columns.items(code)
    if kind.statuses:
        counts = Counter(sheet.reading(item).status for item in items)
        row.statuses[code] = {status: counts.get(status, 0) for status in kind.statuses}
        if items:
            row.answer_rate[code] = sum(counts.get(status, 0) for status in _ANSWERED) / len(items)
    if kind is BOX and items:
        row.boxes[code] = box_metrics(sheet, columns.positive[code], columns.negative.get(code, []))
    if kind.rated:
        texts = [without_disclaimer(sheet.reading(item).text, bench) for item in items]
        written = [text for text in texts if text]
        if written:
            lengths = [len(text) for text in written]
            chinese = [is_chinese(text) for text in written]
            row.texts[code] = TextLengths(len(written), float(np.median(lengths)), float(np.mean(chinese)))


def _repeats(contestant: Contestant, columns: Columns) -> dict[str, Repeats]:
    """The metrics of each run and their standard deviation: what asking once leaves unknown."""
    sheets = [contestant.plain, *contestant.repeats]
    if len(sheets) < 2:
        return {}
    common = columns.asked_of_all(sheets)
    result = {}
    for code, metric in columns.own_metrics:
        runs = [found.value for sheet in sheets if (found := estimate(sheet, code, metric, common)) is not None]
        if len(runs) == len(sheets):
            result[metric.name] = Repeats(runs, float(np.std(runs, ddof=1)))
    return result


def _blind(contestant: Contestant, columns: Columns) -> dict[str, Blind]:
    """The metrics with and without the image, drawn over the same images."""
    blind = contestant.blind
    if blind is None:
        return {}
    common = columns.asked_of_all([contestant.plain, blind])
    result = {}
    for code, metric in columns.own_metrics:
        gain = difference(contestant.plain, [blind], code, metric, common)
        without = estimate(blind, code, metric, common)
        if gain is not None and without is not None:
            result[metric.name] = Blind(gain.n, without.value, gain.difference, gain.interval)
    return result


def prompt_pairs(models: Sequence[Contestant], columns: Columns) -> list[PromptPair]:
    """What the wording of the prompt changes: runs of one model on the same questions."""
    found = []
    for one, other in combinations(models, 2):
        if one.answers.author != other.answers.author or one.answers.prompt == other.answers.prompt:
            continue
        gaps = {}
        for code, metric in columns.metrics:
            gap = difference(one.plain, [other.plain], code, metric, columns)
            if gap is not None:
                gaps[metric.name] = gap
        found.append(PromptPair(one.answers.author, one.answers.prompt, other.answers.prompt, gaps))
    return found


def chain_of(sheet: Sheet, codes: Sequence[str], columns: Columns) -> list[ChainStep]:
    """Where errors begin: the last of the question types, given that the ones before it were right or found."""
    *before, last = codes
    asked = {code: {item.sha256: item for item in columns.items(code)} for code in before}
    kept = [item for item in columns.items(last) if item.sha256 in asked[before[0]]]
    steps = [_step(sheet, last, [], kept)]
    for number, code in enumerate(before, 1):
        kept = [
            item
            for item in kept
            if item.sha256 in asked[code] and (sheet.value(asked[code][item.sha256]) or 0.0) >= FOUND
        ]
        steps.append(_step(sheet, last, list(before[:number]), kept))
    return steps


def _step(sheet: Sheet, question: str, given: list[str], items: Sequence[Item]) -> ChainStep:
    share = float(np.mean([sheet.reading(item).right for item in items])) if items else None
    return ChainStep(question, given, len(items), share)
