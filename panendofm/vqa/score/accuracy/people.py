"""Readers and groups of readers on multiple-choice questions, and models against them on the same questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.choices import macro_average
from panendofm.scoring.classification.rates import ratio
from panendofm.scoring.statistics.paired_tests import group_sums, holm, sign_flip
from panendofm.scoring.statistics.replicates import reader_shares
from panendofm.vqa.bench.items import Item
from panendofm.vqa.score.accuracy.metrics import AXES, contestant_result, right_of
from panendofm.vqa.score.accuracy.results import GroupAccuracy, GroupTest, HumanStudy, ReaderGroup
from panendofm.vqa.score.sheets import Contestant, Floats, QuestionSet


def human_study(items: Sequence[Item], contestants: Sequence[Contestant], questions: QuestionSet) -> HumanStudy:
    """`questions` are those of `items` that people answered; models are scored on the same ones."""
    if not questions.items:
        raise UserError("people: the bench has no question for people; build it with human_questions.")
    names = sorted({contestant.group for contestant in contestants} - {""})
    members = {name: [own for own in contestants if own.group == name] for name in names}
    groups = {name: _reader_group(own, questions) for name, own in members.items()}
    return HumanStudy(
        questions=len(questions.items),
        questions_for_people=sum(item.human for item in items),
        groups_of_images=len(np.unique(questions.groups)),
        contestants={own.name: contestant_result(questions, own) for own in contestants},
        groups=groups,
        against=_against([own for own in contestants if not own.group], members, questions),
    )


def _reader_group(readers: Sequence[Contestant], questions: QuestionSet) -> ReaderGroup:
    """The mean of the readers' accuracies, all in all and part by part."""
    rights = np.stack([right_of(questions, reader.plain) for reader in readers])  # [readers, N]
    everything = np.ones(len(questions.items), bool)
    axes: dict[str, dict[str, GroupAccuracy]] = {}
    for axis in AXES:
        values = np.array([getattr(item, axis) for item in questions.items])
        axes[axis] = {name: _mean(rights, values == name, questions) for name in sorted(set(values.tolist()))}
    tasks = [item.task for item in questions.items]
    seconds = [answer.latency_s for reader in readers for answer in reader.answers.answers.values()]
    return ReaderGroup(
        readers=[reader.name for reader in readers],
        all=_mean(rights, everything, questions),
        axes=axes,
        macro_over_tasks=float(np.mean([macro_average(right, tasks) for right in rights])),
        median_seconds=float(np.median(seconds)) if seconds else None,
    )


def _mean(rights: Floats, where: NDArray[np.bool_], questions: QuestionSet) -> GroupAccuracy:
    drawn = _drawn(rights[:, where], questions.weights[:, where], questions)
    by_reader = rights[:, where].mean(axis=1)
    return GroupAccuracy(
        n=int(where.sum()),
        accuracy=float(by_reader.mean()),
        interval=questions.interval(drawn),
        by_reader=[float(value) for value in by_reader],
    )


def _drawn(rights: Floats, weights: Floats, questions: QuestionSet) -> Floats:
    """The readers' mean in each replicate [R]: questions are drawn, and readers too."""
    shares = reader_shares(len(rights), len(weights), questions.bootstrap.seed + 1)  # [R, readers]
    each = ratio(weights @ rights.T, weights.sum(axis=1, keepdims=True))  # [R, readers]
    return np.asarray((shares * each).sum(axis=1), np.float64)


def _against(
    models: Sequence[Contestant], members: dict[str, list[Contestant]], questions: QuestionSet
) -> list[GroupTest]:
    """Every model less every group of readers: interval over images and readers, sign flips over groups of images."""
    found = []
    raw: dict[str, float] = {}
    for model in models:
        mine = right_of(questions, model.plain)
        own = ratio(questions.weights @ mine, questions.weights.sum(axis=1))
        for group, readers in members.items():
            rights = np.stack([right_of(questions, reader.plain) for reader in readers])
            gap = mine - rights.mean(axis=0)
            interval = questions.interval(own - _drawn(rights, questions.weights, questions))
            p = sign_flip(group_sums(gap, questions.groups))
            raw[f"{model.name}\n{group}"] = p
            found.append(GroupTest(model.name, group, float(gap.mean()), interval, p, p))
    corrected = holm(raw)
    return [
        GroupTest(own.model, own.group, own.difference, own.interval, own.p, corrected[f"{own.model}\n{own.group}"])
        for own in found
    ]
