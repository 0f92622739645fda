"""results.json and leaderboard.json of a leaderboard by question type."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from panendofm.records.documents import read_document, write_document
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.vqa.score.published import Published
from panendofm.vqa.score.sheets import Accounting

RESULTS, BOARD = "results.json", "leaderboard.json"
Pair = tuple[float, float]


@dataclass(frozen=True)
class MetricValue:
    """A metric of a contestant, or of a group of readers: then with the value of each."""

    n: int
    classes: int
    value: float
    interval: Pair | None
    by_reader: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class PlainValue:
    value: float
    ceiling: float | None = None


@dataclass(frozen=True)
class Difference:
    """A model less a group of readers; p of sign flips over classes, where there are classes to compare."""

    n: int
    difference: float
    interval: Pair | None
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True)
class Repeats:
    runs: list[float]
    standard_deviation: float


@dataclass(frozen=True)
class Blind:
    """A metric without the image, and what the image adds."""

    n: int
    without_image: float
    image_adds: float
    interval: Pair | None


@dataclass(frozen=True)
class BoxMetrics:
    """Everything about boxes that is not a mean with an interval; a group of readers has the first three."""

    valid_rate: float | None = None
    best_match: float | None = None  # mean overlap of the best of all boxes
    specificity: float | None = None
    negatives: int = 0
    miou: float | None = None
    union: float | None = None  # all boxes merged
    over_valid: float | None = None
    boxes_per_reply: float | None = None
    recall_curve: dict[str, float] = field(default_factory=dict)
    by_convention: dict[str, float] = field(default_factory=dict)
    looks_like: str | None = None  # a convention that fits clearly better than the one that was set
    outlines: int = 0
    outline: float | None = None
    outline_ceiling: float | None = None
    by_annotator: dict[str, float] = field(default_factory=dict)
    annotators_iou: float | None = None
    annotated: int = 0


@dataclass(frozen=True)
class DimensionValue:
    """Ratings in one dimension. A contestant's `sd` is over texts, that of a group over its readers' means."""

    n: int
    mean: float
    sd: float | None
    interval: Pair | None
    counts: dict[str, int] = field(default_factory=dict)  # how often each rating was given
    by_reader: list[float] = field(default_factory=list)
    sd_over_texts: float | None = None  # of a group: over all texts of its readers


@dataclass(frozen=True)
class TextLengths:
    n: int
    median_characters: float
    share_chinese: float


@dataclass(frozen=True)
class ChainStep:
    """How often a question is right, given that those before it were."""

    question: str
    given: list[str]
    n: int
    share: float | None


@dataclass(frozen=True)
class Grounding:
    """Boxes beside the other steps of the chain, on the same images."""

    box: str  # code of the question for a box
    n: int
    shares: dict[str, float]  # right, or found, by code
    gaps: dict[str, Difference]  # found less right, by the other code
    breaks: dict[str, float]  # share of images whose first mistake is at this code; «none»: no mistake
    right_without_box: float  # the last step is right although the lesion was not found


@dataclass(frozen=True)
class SaidTooMuch:
    """Share of texts with any such remark, by dimension of the rubric."""

    n: int
    shares: dict[str, float]
    intervals: dict[str, Pair | None]


@dataclass(frozen=True)
class Consistency:
    """Whether a text says what the same contestant chose."""

    n: int
    names_the_chosen_site: float
    names_the_chosen_lesion: float
    names_a_lesion_that_is_not_there: float


@dataclass
class Row:
    """A contestant, or a group of `readers`. Dictionaries are by metric, or by code of the question type."""

    name: str
    kind: str
    readers: int = 0
    metrics: dict[str, MetricValue] = field(default_factory=dict)
    plain: dict[str, PlainValue] = field(default_factory=dict)
    by_class: dict[str, dict[str, float]] = field(default_factory=dict)
    by_site: dict[str, dict[str, float]] = field(default_factory=dict)
    statuses: dict[str, dict[str, int]] = field(default_factory=dict)
    answer_rate: dict[str, float] = field(default_factory=dict)
    boxes: dict[str, BoxMetrics] = field(default_factory=dict)
    texts: dict[str, TextLengths] = field(default_factory=dict)
    dimensions: dict[str, dict[str, DimensionValue]] = field(default_factory=dict)  # by code and dimension
    dimensions_against: dict[str, dict[str, dict[str, Difference]]] = field(default_factory=dict)  # by group before
    chain: list[ChainStep] = field(default_factory=list)
    grounding: Grounding | None = None
    said_too_much: dict[str, dict[str, SaidTooMuch]] = field(default_factory=dict)  # by code and rater
    consistency: Consistency | None = None
    repeats: dict[str, Repeats] = field(default_factory=dict)
    blind: dict[str, Blind] = field(default_factory=dict)
    against: dict[str, dict[str, Difference]] = field(default_factory=dict)  # by group of readers and metric
    accounting: Accounting | None = None
    seconds: float | None = None

    def value(self, metric: str) -> float | None:
        found = self.metrics.get(metric) or self.plain.get(metric)
        return None if found is None else found.value


@dataclass(frozen=True)
class PromptPair:
    """One model that was asked with two prompts: the first run less the second, by metric."""

    model: str
    first: str  # prompts
    second: str
    differences: dict[str, Difference]


@dataclass(frozen=True)
class Part:
    """The table of one set of questions."""

    images: int = 0
    questions: int = 0
    rows: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    prompt_pairs: list[PromptPair] = field(default_factory=list)


@dataclass(frozen=True)
class Agreement:
    """Of a judge with the experts, or of the experts among themselves (`icc_2_1` alone)."""

    n: int
    icc_2_1: float | None
    icc_2_1_low: float | None = None
    icc_2_1_high: float | None = None
    quadratic_weighted_kappa: float | None = None
    krippendorff_ordinal: float | None = None
    spearman: float | None = None
    pearson: float | None = None
    kendall_b: float | None = None
    exact_agreement: float | None = None
    within_one: float | None = None
    bias: float | None = None


@dataclass(frozen=True)
class QuestionResults:
    bench: str
    bench_sha256: str
    benchmark: str
    diagnosis_options: str
    reviewed: int
    bootstrap: BootstrapConfig
    rated_by: str
    judges_in_the_table: list[str]
    agreement: dict[str, dict[str, Agreement]]  # by dimension and rater
    published: Published
    full: Part
    human: Part | None = None
    complete_cases: Part | None = None
    format: Literal[2] = 2


@dataclass(frozen=True)
class Board:
    """The rows alone, for those who collect leaderboards."""

    bench: str
    published: Published
    full: Part
    human: Part | None = None


def write_results(out: Path, results: QuestionResults) -> None:
    write_document(out / RESULTS, results)
    write_document(out / BOARD, Board(results.bench, results.published, results.full, results.human))


def read_question_results(out: Path) -> QuestionResults:
    return read_document(QuestionResults, out / RESULTS, "the results of 'vqa score'")
