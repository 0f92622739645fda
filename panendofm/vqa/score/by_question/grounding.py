"""Whether a contestant that knows what it sees also knows where, and at which step chains break."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panendofm.scoring.classification.rates import ratio
from panendofm.vqa.benchmark import QuestionType
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.by_question.estimates import Columns
from panendofm.vqa.score.by_question.results import Difference, Grounding
from panendofm.vqa.score.sheets import QuestionSet, Sheet

FOUND = 0.5  # the overlap from which on a lesion counts as found
UNBROKEN = "none"


def grounding_of(sheet: Sheet, codes: Sequence[str], columns: Columns) -> Grounding | None:
    """On images of which every step of the chain was asked; a step is done when it is right, or the lesion is found."""
    types = {question.code: question for question in columns.questions}
    boxes = [code for code in codes if types[code].kind is BOX]
    asked = {code: {item.sha256: item for item in columns.items(code)} for code in codes}
    common = sorted(set.intersection(*(set(own) for own in asked.values())))
    if len(boxes) != 1 or not common:
        return None
    done = {
        code: np.array([(sheet.value(asked[code][sha256]) or 0.0) >= FOUND for sha256 in common], np.float64)
        for code in codes
    }
    questions = QuestionSet([asked[boxes[0]][sha256] for sha256 in common], columns.bootstrap)
    box = done[boxes[0]]
    gaps = {}
    for code in codes:
        if code != boxes[0]:
            lag = box - done[code]
            drawn = ratio(questions.weights @ lag, questions.weights.sum(axis=1))
            gaps[code] = Difference(len(common), float(lag.mean()), questions.interval(drawn))
    going = np.ones(len(common))
    breaks = {}
    for code in codes:
        breaks[code] = float((going * (1 - done[code])).mean())
        going *= done[code]
    breaks[UNBROKEN] = float(going.mean())
    return Grounding(
        box=boxes[0],
        n=len(common),
        shares={code: float(own.mean()) for code, own in done.items()},
        gaps=gaps,
        breaks=breaks,
        right_without_box=float((done[codes[-1]] * (1 - box)).mean()),
    )


def statement(name: str, found: Grounding, types: Sequence[QuestionType]) -> str:
    """One sentence that says what the numbers say."""
    titles = {question.code: question.title for question in types}
    behind = [
        f"{titles[code]} by {-gap.difference:.2f} ({-gap.interval[1]:.2f} to {-gap.interval[0]:.2f})"
        for code, gap in found.gaps.items()
        if gap.interval is not None and gap.interval[1] < 0
    ]
    broken = {code: share for code, share in found.breaks.items() if code != UNBROKEN}
    worst = max(broken, key=lambda code: broken[code])
    where = f"most chains break at the {titles[worst]} ({broken[worst]:.0%})" if broken[worst] else "no chain breaks"
    lag = (
        f"its {titles[found.box]} lags behind {' and '.join(behind)}"
        if behind
        else f"its {titles[found.box]} lags behind nothing clearly"
    )
    return f"{name} finds {found.shares[found.box]:.0%} of {found.n} lesions: {lag}; {where}."
