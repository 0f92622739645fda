"""results.json of a leaderboard of multiple-choice questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from panendofm.records.documents import read_document, write_document
from panendofm.scoring.answers.choices import Accuracy, Robustness, RotationMetrics
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import Interval
from panendofm.vqa.score.contamination import Place
from panendofm.vqa.score.published import Published
from panendofm.vqa.score.sheets import Accounting

RESULTS = "results.json"


@dataclass(frozen=True)
class BlindAccuracy:
    """Without the image, and what the image adds."""

    n: int
    accuracy: float
    chance: float
    image_gain: float
    image_gain_interval: Interval | None
    above_chance: float


@dataclass(frozen=True)
class Perturbed:
    n: int
    robustness: Robustness


@dataclass(frozen=True)
class Repeats:
    accuracies: list[float]
    standard_deviation: float


@dataclass(frozen=True)
class LikelihoodResult:
    """Options chosen by their mean log-probability over all orders, beside the first order alone."""

    mode: str  # letters or texts
    n: int
    first_order: float
    over_rotations: float
    interval: Interval | None


@dataclass(frozen=True)
class Extraction:
    """Replies that the strict parser could not read, as a model read them; reported beside, never instead."""

    by: str
    tried: int
    changed: list[str]  # ids of questions with a letter that strict reading had not
    now_right: int
    strict: float
    extracted: float
    interval: Interval | None  # of the accuracy with extracted letters


@dataclass(frozen=True)
class ContestantResult:
    """Everything about one contestant that needs no other."""

    kind: str
    prompt: str
    all: Accuracy
    wilson: Interval | None  # where every image is a group of its own
    axes: dict[str, dict[str, Accuracy]]  # by task, scene, …
    macro_over_tasks: float
    statuses: dict[str, int]
    rotation: RotationMetrics | None
    rotation_of_natural_order: RotationMetrics | None
    blind: BlindAccuracy | None
    perturbed: dict[str, Perturbed]
    repeats: Repeats | None
    accounting: Accounting
    likelihood: LikelihoodResult | None = None
    extraction: Extraction | None = None

    @property
    def unreadable(self) -> int:
        return sum(count for status, count in self.statuses.items() if status != "ok")


@dataclass(frozen=True)
class PairTest:
    """Two contestants: difference with interval, the exact test, and both corrections over all pairs."""

    a: str
    b: str
    difference: float
    interval: Interval | None
    test: str
    p: float
    p_holm: float
    p_benjamini_hochberg: float


@dataclass(frozen=True)
class ShortcutResult:
    """What can be scored without looking; `flagged` when it is certainly above what is tolerated."""

    shortcut: str
    task: str
    flagged: bool
    accuracy: Accuracy


@dataclass(frozen=True)
class ContaminationResult:
    places: list[Place]
    images_seen: int
    questions_seen: int
    seen_ids: list[str]
    accuracy: dict[str, dict[str, Accuracy]]  # of each contestant, on what was seen and on the rest


@dataclass(frozen=True)
class GroupAccuracy:
    """The mean of several readers; the interval is over images and readers (over images alone for one reader)."""

    n: int
    accuracy: float
    interval: Interval | None
    by_reader: list[float]


@dataclass(frozen=True)
class ReaderGroup:
    readers: list[str]
    all: GroupAccuracy
    axes: dict[str, dict[str, GroupAccuracy]]  # by task, scene, …
    macro_over_tasks: float
    median_seconds: float | None


@dataclass(frozen=True)
class GroupTest:
    """A model less a group of readers; p of sign flips over groups of images, and after Holm over all pairs."""

    model: str
    group: str
    difference: float
    interval: Interval | None
    p: float
    p_holm: float


@dataclass(frozen=True)
class HumanStudy:
    """Models, readers and groups of readers on the questions that people answered."""

    questions: int
    questions_for_people: int  # in the bench
    groups_of_images: int
    contestants: dict[str, ContestantResult]
    groups: dict[str, ReaderGroup]
    against: list[GroupTest]

    @property
    def ranked(self) -> list[tuple[str, ContestantResult]]:
        """Best first."""
        return sorted(self.contestants.items(), key=lambda pair: (-pair[1].all.accuracy, pair[0]))


@dataclass(frozen=True)
class AccuracyResults:
    bench: str
    bench_sha256: str
    benchmark: str
    reviewed: int
    questions: int
    questions_in_bench: int
    groups: int
    bootstrap: BootstrapConfig
    parser: str
    contestants: dict[str, ContestantResult]
    pairs: list[PairTest]
    shortcuts: list[ShortcutResult]
    published: Published
    contamination: ContaminationResult | None = None
    human: HumanStudy | None = None
    format: Literal[2] = 2

    @property
    def ranked(self) -> list[tuple[str, ContestantResult]]:
        """Best first."""
        return sorted(self.contestants.items(), key=lambda pair: (-pair[1].all.accuracy, pair[0]))

    @property
    def chance(self) -> float:
        return next(iter(self.contestants.values())).all.chance


def write_results(out: Path, results: AccuracyResults) -> None:
    write_document(out / RESULTS, results)


def read_results(out: Path) -> AccuracyResults:
    return read_document(AccuracyResults, out / RESULTS, "the results of 'vqa score'")
