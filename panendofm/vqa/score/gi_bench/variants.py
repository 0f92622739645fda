"""What repeated runs and runs without the picture say about a contestant's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from panendofm.vqa.bench.items import Bench
from panendofm.vqa.client.answers import AnswerSet
from panendofm.vqa.score.gi_bench.estimates import COLUMNS, Columns, difference, estimate
from panendofm.vqa.score.gi_bench.sheets import Sheet, sheet_of


@dataclass(frozen=True)
class Contestant:
    """A contestant's sheet, and those of the same questions asked again or without the picture."""

    plain: Sheet
    repeats: tuple[Sheet, ...] = ()
    blind: Sheet | None = None

    @property
    def sheets(self) -> list[Sheet]:
        return [self.plain, *self.repeats, *([self.blind] if self.blind is not None else [])]


def read_contestant(bench: Bench, answers: AnswerSet, mode: str) -> Contestant:
    numbers = sorted({variant.repeat for _, variant in answers.answers} - {0})
    repeats = tuple(sheet_of(bench, answers, mode, repeat=number) for number in numbers)
    blind = any(variant.blind for _, variant in answers.answers)
    return Contestant(
        sheet_of(bench, answers, mode), repeats, sheet_of(bench, answers, mode, blind=True) if blind else None
    )


def variant_figures(contestant: Contestant, columns: Columns) -> dict[str, Any]:
    """`repeats` and `blind` of a row, as far as such questions were asked."""
    result: dict[str, Any] = {}
    if contestant.repeats and (spread := _spread(contestant, columns)):
        result["repeats"] = spread
    if contestant.blind is not None and (gain := _without_picture(contestant.plain, contestant.blind, columns)):
        result["blind"] = gain
    return result


def _asked_of_all(columns: Columns, sheets: Sequence[Sheet]) -> Columns:
    """Only the questions that every sheet was asked: what was not asked is no mistake."""
    kept = {
        name: own
        for name, items in columns.lesions.items()
        if (own := [item for item in items if all(item.id in sheet.asked for sheet in sheets)])
    }
    return replace(columns, lesions=kept)


def _spread(contestant: Contestant, columns: Columns) -> dict[str, Any]:
    """The figure of each run and their standard deviation: what asking once leaves unknown."""
    sheets = [contestant.plain, *contestant.repeats]
    common = _asked_of_all(columns, sheets)
    result = {}
    for column in COLUMNS:
        runs = [found.value for sheet in sheets if (found := estimate(sheet, column, common)) is not None]
        if len(runs) == len(sheets):
            result[column] = {"runs": runs, "standard_deviation": float(np.std(runs, ddof=1))}
    return result


def _without_picture(plain: Sheet, blind: Sheet, columns: Columns) -> dict[str, Any]:
    """The figure with and without the picture, and what the picture adds, drawn over the same pictures."""
    common = _asked_of_all(columns, [plain, blind])
    result = {}
    for column in COLUMNS:
        gain = difference(plain, [blind], column, common)
        without = estimate(blind, column, common)
        if gain is not None and without is not None:
            result[column] = {
                "n": gain["n"],
                "without_picture": without.value,
                "picture_adds": gain["difference"],
                "interval": gain["interval"],
            }
    return result
