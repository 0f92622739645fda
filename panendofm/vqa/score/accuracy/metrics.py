"""The metrics of contestants on multiple-choice questions, with intervals over groups, and the tests between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.answers.choices import (
    RotatedQuestion,
    RotationMetrics,
    chance_level,
    image_gain,
    macro_average,
    robustness,
    rotation_metrics,
)
from panendofm.scoring.answers.replies import LETTERS, STATUSES
from panendofm.scoring.classification.rates import ratio
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.intervals import Interval
from panendofm.scoring.statistics.paired_tests import benjamini_hochberg, group_sums, holm, mcnemar, sign_flip
from panendofm.vqa.score.accuracy.results import (
    BlindAccuracy,
    ContestantResult,
    Extraction,
    LikelihoodResult,
    PairTest,
    Perturbed,
    Repeats,
)
from panendofm.vqa.score.sheets import Contestant, Floats, QuestionSet, Sheet, accounting

AXES = ("category", "task", "subtask", "scene", "prompt_kind", "dataset")


def right_of(questions: QuestionSet, sheet: Sheet | None) -> Floats:
    """1 where the contestant is right [N]; what it didn't answer is wrong."""
    return np.array([sheet is not None and sheet.reading(item).right for item in questions.items], np.float64)


def _asked(questions: QuestionSet, sheet: Sheet) -> NDArray[np.bool_]:
    return np.array([sheet.asked(item) for item in questions.items], bool)


def contestant_result(questions: QuestionSet, contestant: Contestant) -> ContestantResult:
    right = right_of(questions, contestant.plain)
    parts: dict[tuple[str, str], NDArray[np.bool_]] = {("all", "all"): np.ones(len(right), bool)}
    for axis in AXES:
        values = np.array([getattr(item, axis) for item in questions.items])
        parts |= {(axis, value): values == value for value in sorted(set(values.tolist()))}
    found = questions.accuracies(right, parts)
    counts = Counter(contestant.plain.reading(item).status for item in questions.items)
    return ContestantResult(
        kind=contestant.kind,
        prompt=contestant.answers.prompt,
        all=found["all", "all"],
        wilson=_wilson(questions, right),
        axes={axis: {value: own for (name, value), own in found.items() if name == axis} for axis in AXES},
        macro_over_tasks=macro_average(right, [item.task for item in questions.items]),
        statuses={status: counts.get(status, 0) for status in STATUSES},
        rotation=_rotations(questions, contestant, natural_order=False),
        rotation_of_natural_order=_rotations(questions, contestant, natural_order=True),
        blind=_blind(questions, contestant, right),
        perturbed=_perturbed(questions, contestant, right),
        repeats=_repeats(questions, contestant),
        accounting=accounting(contestant.answers),
        likelihood=_likelihood(questions, contestant),
        extraction=_extraction(questions, contestant, right),
    )


def _likelihood(questions: QuestionSet, contestant: Contestant) -> LikelihoodResult | None:
    """The option with the highest mean log-probability over all orders of the options."""
    mode = contestant.answers.run.likelihood
    if mode == "none":
        return None
    first, over = [], []
    where = []
    for item in questions.items:
        sheets = [contestant.variant(rotation=r) for r in range(len(item.options))]
        turned = [sheet.reading(item) for sheet in sheets if sheet is not None and sheet.asked(item)]
        if len(turned) != len(item.options) or not all(reading.log_probabilities for reading in turned):
            where.append(False)
            continue
        where.append(True)
        means = np.mean([reading.log_probabilities for reading in turned], axis=0)
        first.append(float(turned[0].right))
        over.append(float(LETTERS[int(np.argmax(means))] == item.answer))
    if not first:
        return None
    weights = questions.weights[:, np.array(where, bool)]
    interval = questions.interval(ratio(weights @ np.array(over), weights.sum(axis=1)))
    return LikelihoodResult(mode, len(first), float(np.mean(first)), float(np.mean(over)), interval)


def _extraction(questions: QuestionSet, contestant: Contestant, right: Floats) -> Extraction | None:
    found = contestant.answers.extracted
    if not found.by:
        return None
    letters = [found.letters.get(item.id) for item in questions.items]
    changed = [item.id for item, letter in zip(questions.items, letters, strict=True) if letter is not None]
    gained = np.array([letter == item.answer for item, letter in zip(questions.items, letters, strict=True)], float)
    after = np.maximum(right, gained)
    return Extraction(
        by=found.by,
        tried=sum(item.id in found.letters for item in questions.items),
        changed=changed,
        now_right=int(after.sum() - right.sum()),
        strict=float(right.mean()),
        extracted=float(after.mean()),
        interval=questions.interval(ratio(questions.weights @ after, questions.weights.sum(axis=1))),
    )


def _wilson(questions: QuestionSet, right: Floats) -> Interval | None:
    found = wilson(int(right.sum()), len(right)) if questions.single_groups else None
    return None if found is None else Interval(*found)


def _rotations(questions: QuestionSet, contestant: Contestant, natural_order: bool) -> RotationMetrics | None:
    """Position bias; questions whose options have a natural order are kept apart."""
    turned = []
    for item in questions.items:
        sheets = [contestant.variant(rotation=r) for r in range(len(item.options))]
        asked = [sheet for sheet in sheets if sheet is not None and sheet.asked(item)]
        if item.natural_order == natural_order and len(asked) == len(sheets):
            replied = tuple(sheet.reading(item).replied for sheet in asked)
            turned.append(RotatedQuestion(len(item.options), item.answer, replied))
    # A question alone in its first order tells nothing of position.
    return rotation_metrics(turned) if any(len(question.replied) > 1 for question in turned) else None


def _blind(questions: QuestionSet, contestant: Contestant, right: Floats) -> BlindAccuracy | None:
    if contestant.blind is None:
        return None
    asked = _asked(questions, contestant.blind)
    if not asked.any():
        return None
    without = right_of(questions, contestant.blind)[asked]
    chance = chance_level(questions.n_options[asked])
    gain, above = image_gain(float(right[asked].mean()), float(without.mean()), chance)
    weights = questions.weights[:, asked]
    total = weights.sum(axis=1)
    drawn = total > 0
    interval = questions.interval((weights[drawn] @ (right[asked] - without)) / total[drawn])
    return BlindAccuracy(int(asked.sum()), float(without.mean()), chance, gain, interval, above)


def _perturbed(questions: QuestionSet, contestant: Contestant, right: Floats) -> dict[str, Perturbed]:
    result = {}
    for name in contestant.perturbations:
        sheet = contestant.variant(perturb=name)
        if sheet is not None and (asked := _asked(questions, sheet)).any():
            chance = chance_level(questions.n_options[asked])
            found = robustness(right[asked], right_of(questions, sheet)[asked], chance)
            result[name] = Perturbed(int(asked.sum()), found)
    return result


def _repeats(questions: QuestionSet, contestant: Contestant) -> Repeats | None:
    sheets = [contestant.plain, *contestant.repeats]
    if len(sheets) < 2:
        return None
    shares = [float(right_of(questions, sheet).mean()) for sheet in sheets]
    return Repeats(shares, float(np.std(shares, ddof=1)))


def pair_tests(questions: QuestionSet, contestants: Sequence[Contestant]) -> list[PairTest]:
    rights = {contestant.name: right_of(questions, contestant.plain) for contestant in contestants}
    differences = {(a, b): rights[a] - rights[b] for a, b in combinations(rights, 2)}
    raw = {f"{a}\n{b}": _exact_test(questions, difference) for (a, b), difference in differences.items()}
    test = "McNemar" if questions.single_groups else "sign flip over groups"
    corrected = holm(raw)
    discovery = benjamini_hochberg(raw)
    found = []
    for (a, b), difference in differences.items():
        key = f"{a}\n{b}"
        interval = questions.interval((questions.weights @ difference) / questions.weights.sum(axis=1))
        mean = float(difference.mean())
        found.append(PairTest(a, b, mean, interval, test, raw[key], corrected[key], discovery[key]))
    return found


def _exact_test(questions: QuestionSet, difference: Floats) -> float:
    if questions.single_groups:
        return mcnemar(int(np.sum(difference > 0)), int(np.sum(difference < 0)))
    return sign_flip(group_sums(difference, questions.groups))
