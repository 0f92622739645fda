"""Metrics of multiple-choice answers: accuracy against chance, rotations of the options, blind and perturbed runs.

A question that wasn't answered, or whose reply can't be read, is wrong: every share is one of all questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.statistics.intervals import Interval, percentile_interval
from panendofm.scoring.statistics.paired_tests import mcnemar

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Name = TypeVar("Name", str, tuple[str, str])
T = TypeVar("T")


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers, what guessing gives, and how far the one is above the other."""

    n: int
    accuracy: float
    chance: float
    chance_corrected: float
    interval: Interval | None = None
    chance_corrected_interval: Interval | None = None


def chance_level(n_options: Integers | Sequence[int]) -> float:
    """The exact expectation of guessing."""
    return float(np.mean(1 / np.asarray(n_options, np.float64)))


def chance_corrected(accuracy: float, chance: float) -> float:
    """0 for guessing, 1 for no mistake; a question with one option has nothing to correct."""
    return (accuracy - chance) / (1 - chance) if chance < 1 else float("nan")


def accuracy_of(correct: Floats, n_options: Integers, weights: Floats | None = None) -> Accuracy:
    """Metrics of questions [N]; with weights [R, N] of `group_weights` the intervals over groups too."""
    accuracy, chance = float(np.mean(correct)), chance_level(n_options)
    metrics = Accuracy(len(correct), accuracy, chance, chance_corrected(accuracy, chance))
    if weights is None:
        return metrics
    return accuracies_by(correct, n_options, {"all": np.ones(len(correct), bool)}, weights)["all"]


def accuracies_by(
    correct: Floats,
    n_options: Integers,
    parts: dict[Name, NDArray[np.bool_]],
    weights: Floats | None = None,
    confidence: float = 0.95,
) -> dict[Name, Accuracy]:
    """The same for parts of the questions (name → which of them [N]), with one pass over the weights [R, N]."""
    guess = 1 / np.asarray(n_options, np.float64)
    plain = {name: accuracy_of(correct[own], n_options[own]) for name, own in parts.items()}
    if weights is None or not len(weights) or not parts:
        return plain
    inside = np.stack(list(parts.values()), axis=1).astype(np.float64)  # [N, P]
    drawn = weights @ np.concatenate([inside, inside * correct[:, None], inside * guess[:, None]], axis=1)  # [R, 3P]
    totals, rights, guesses = np.split(drawn, 3, axis=1)
    result = {}
    for column, (name, metrics) in enumerate(plain.items()):
        there = totals[:, column] > 0  # a draw may hold no question of a small part
        share = rights[there, column] / totals[there, column]
        chance = guesses[there, column] / totals[there, column]
        several = chance < 1
        corrected = (share[several] - chance[several]) / (1 - chance[several])
        result[name] = replace(
            metrics,
            interval=percentile_interval(share, confidence),
            chance_corrected_interval=percentile_interval(corrected, confidence),
        )
    return result


def macro_average(correct: Floats, names: Sequence[str]) -> float:
    """Mean over the names (tasks, classes) of each one's share of right answers."""
    _, member = np.unique(np.asarray(names), return_inverse=True)
    return float(np.mean(np.bincount(member, weights=correct) / np.bincount(member)))


# ------------------------------------------------------------------------------------------ rotation of the options


def rotated(options: Sequence[T], rotation: int) -> list[T]:
    """The options as rotation r shows them: options[r:] + options[:r]."""
    return [*options[rotation:], *options[:rotation]]


def letter_after_rotation(letter: str, rotation: int, n_options: int) -> str:
    """Where the option that stood at `letter` stands after the rotation."""
    return LETTERS[(LETTERS.index(letter) - rotation) % n_options]


def letter_before_rotation(letter: str, rotation: int, n_options: int) -> str:
    """The canonical letter of what a reply chose among rotated options."""
    return LETTERS[(LETTERS.index(letter) + rotation) % n_options]


@dataclass(frozen=True)
class RotatedQuestion:
    """One question asked in all its rotations: its right letter in the first, and the letters as they were replied."""

    n_options: int
    answer: str
    replied: tuple[str | None, ...]  # by rotation; None: no readable reply

    @property
    def chosen(self) -> tuple[str | None, ...]:
        """The replied options by their letters in the canonical order."""
        return tuple(
            None if letter is None else letter_before_rotation(letter, r, self.n_options)
            for r, letter in enumerate(self.replied)
        )

    @property
    def right(self) -> tuple[bool, ...]:
        return tuple(letter == self.answer for letter in self.chosen)


@dataclass(frozen=True)
class RotationMetrics:
    n: int
    rotation_accuracy: float  # mean over questions and rotations
    circular_accuracy: float  # right in every rotation
    consistency: float  # the same option in every rotation, right or not
    letter_counts: dict[str, int]
    letter_total_variation: float  # of the chosen letters from equal shares
    recall_by_gold_letter: dict[str, float]
    recall_std: float


def rotation_metrics(questions: Sequence[RotatedQuestion]) -> RotationMetrics:
    """What is left of an accuracy when letters can't help."""
    letters = LETTERS[: max(question.n_options for question in questions)]
    counts = dict.fromkeys(letters, 0)
    right_at: dict[str, list[bool]] = {letter: [] for letter in letters}
    for question in questions:
        for r, (letter, right) in enumerate(zip(question.replied, question.right, strict=True)):
            right_at[letter_after_rotation(question.answer, r, question.n_options)].append(right)
            if letter is not None:
                counts[letter] += 1
    total = sum(counts.values())
    recalls = {letter: float(np.mean(rights)) for letter, rights in right_at.items() if rights}
    shares = [count / total - 1 / len(letters) for count in counts.values()] if total else [float("nan")]
    return RotationMetrics(
        n=len(questions),
        rotation_accuracy=float(np.mean([np.mean(question.right) for question in questions])),
        circular_accuracy=float(np.mean([all(question.right) for question in questions])),
        consistency=float(np.mean([None not in q.chosen and len(set(q.chosen)) == 1 for q in questions])),
        letter_counts=counts,
        letter_total_variation=float(np.abs(shares).sum() / 2),
        recall_by_gold_letter=recalls,
        recall_std=float(np.std(list(recalls.values()))),
    )


# ------------------------------------------------------------------------------------------ blind and perturbed runs


def image_gain(with_image: float, blind: float, chance: float) -> tuple[float, float]:
    """How much the image adds, and how far a run without it is above chance."""
    return with_image - blind, max(0.0, blind - chance)


@dataclass(frozen=True)
class Robustness:
    clean_accuracy: float
    perturbed_accuracy: float
    drop: float
    retention: float | None  # of what is above chance; None: nothing was
    flip_rate: float
    right_to_wrong: float | None  # None: nothing was right
    mcnemar_p: float


def robustness(clean: Floats, perturbed: Floats, chance: float) -> Robustness:
    """The same questions answered on clean and on perturbed images."""
    a, b = float(np.mean(clean)), float(np.mean(perturbed))
    was_right = clean > 0
    lost, gained = int(np.sum(was_right & (perturbed == 0))), int(np.sum(~was_right & (perturbed > 0)))
    return Robustness(
        clean_accuracy=a,
        perturbed_accuracy=b,
        drop=a - b,
        retention=(b - chance) / (a - chance) if a != chance else None,
        flip_rate=(lost + gained) / len(clean),
        right_to_wrong=lost / int(was_right.sum()) if was_right.any() else None,
        mcnemar_p=mcnemar(lost, gained),
    )


# ------------------------------------------------------------------------------------------ answers by class


def class_f1(gold: Sequence[str], answers: Sequence[str | None]) -> dict[str, float]:
    """F1 of each class that occurs; no answer counts as a missed one only."""
    result = {}
    for name in dict.fromkeys(gold):
        hits = sum(g == a == name for g, a in zip(gold, answers, strict=True))
        result[name] = 2 * hits / (sum(g == name for g in gold) + sum(a == name for a in answers))
    return result


def published_site_f1(
    lesions: Sequence[str], site_of: dict[str, str], answers: Sequence[str | None]
) -> dict[str, float]:
    """GI-Bench's F1 of sites, lesion by lesion, as it was published: 2 · right / (own images + answers of the site).

    Right answers for other lesions of the same site count as false alarms, so that nobody can reach 1: with 20 lesions
    in three sites a reader without a mistake gets 0.2607.
    """
    named = {site: sum(answer == site for answer in answers) for site in set(site_of.values())}
    result = {}
    for lesion in dict.fromkeys(lesions):
        own = [answer for name, answer in zip(lesions, answers, strict=True) if name == lesion]
        right = sum(answer == site_of[lesion] for answer in own)
        result[lesion] = 2 * right / (len(own) + named[site_of[lesion]])
    return result


def common_answers(rights: dict[str, Sequence[float | None]]) -> list[int]:
    """Questions that every contestant answered (None: it didn't): the only ones that "complete cases" scores."""
    return [number for number, column in enumerate(zip(*rights.values(), strict=True)) if None not in column]
