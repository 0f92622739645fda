"""What a benchmark is: its question types, how they are built, learned, scored and shown.

A benchmark is one declaration: a module of `panendofm/vqa/benchmarks/` whose `BENCHMARK` is one. Nothing else knows
its name, or the codes of its question types.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint
from panendofm.vqa.bench.bench_folder import Bench, Manifest
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.people.rubric import Rubric
from panendofm.vqa.published_prompts import PromptsNote, PublishedPrompts
from panendofm.vqa.reply_kinds import CHOICE, ReplyKind
from panendofm.vqa.score.config import ScoreConfig
from panendofm.vqa.score.metric import Metric, PlainMetric
from panendofm.vqa.score.published import Published


@dataclass(frozen=True)
class QuestionType:
    """One kind of question. Builders add to it how such questions are made."""

    code: str  # `subtask` of its questions
    title: str
    kind: ReplyKind = CHOICE
    task: str = ""  # several types may share one; the code, where none is given
    category: str = "lesion"
    prompt_kind: str = "image"  # image, box, contour, multi, multi_contour, coordinate
    natural_order: bool = False  # numbers, grades, yes and no keep their order
    wordings: tuple[str, ...] = ()
    for_people: str = ""  # the wording that people read instead
    metrics: tuple[Metric, ...] = ()  # the first one is the type's own column
    plain_metrics: tuple[PlainMetric, ...] = ()  # shown beside, without interval

    def __post_init__(self) -> None:
        if not self.task:
            object.__setattr__(self, "task", self.code)

    @property
    def head(self) -> str:
        """The head of an encoder that answers it; types that share one learn from the same examples."""
        return self.code

    def option_name(self, entity: str) -> str:
        """What options call an entity."""
        return entity

    def draft(self, candidate: Candidate, prepared: Prepared, id_: str, text: str, template: str) -> Item:
        """A question of this type, still without answer."""
        image = candidate.image
        return Item(
            id=id_,
            task=self.task,
            subtask=self.code,
            category=self.category,
            scene=candidate.scene,
            prompt_kind=self.prompt_kind,
            kind=self.kind.name,
            sha256=image.sha256,
            group=image.group,
            image="",
            width=prepared.size[0],
            height=prepared.size[1],
            question=text,
            entity=candidate.entity,
            dataset="+".join(image.datasets),
            source=image.source,
            question_original=text,
            template=template,
        )


@dataclass(frozen=True)
class Example:
    """Something to learn from: an image, or a box of it, and the entity that it shows."""

    head: str
    image: SourceImage
    entity: str
    box: tuple[float, ...] | None = None  # in pixels of the original


class Builder(Protocol):
    """Makes the questions of one bench. What can't be made is counted by reason."""

    def candidates(self, images: Sequence[SourceImage]) -> list[Candidate]:
        """What could be asked."""

    def usable(self, candidates: list[Candidate]) -> list[Candidate]:
        """Of those whose images are fit, the ones to choose from."""

    def cap(self, pool: str) -> int:
        """Most questions of one entity."""

    def items(self, chosen: Sequence[Candidate], facts: dict[str, Prepared]) -> list[Item]:
        """The questions, in the bench's order."""

    def for_people(self, items: list[Item]) -> list[Item]:
        """The questions after a review, those marked that people answer too."""

    def complete(self, manifest: Manifest) -> Manifest:
        """The manifest with what only this kind of bench has."""

    def report(self, items: Sequence[Item]) -> None:
        """Print what was built."""


class Leaderboard(Protocol):
    """How contestants are compared: results, tables and the page."""

    def score(self, benchmark: Benchmark, bench: Bench, answers: Sequence[Path], config: ScoreConfig) -> object:
        """Score and write everything; the results are a dataclass of the leaderboard's own."""


@dataclass(frozen=True)
class Benchmark:
    name: str
    title: str
    questions: tuple[QuestionType, ...]
    builder: Callable[[Benchmark, BuildConfig, Counter[str]], Builder]
    examples: Callable[[Benchmark, Bench, Sequence[SourceImage]], list[Example]]
    leaderboard: Leaderboard
    published: Published = field(default_factory=Published)
    prompts: dict[str, PublishedPrompts] = field(default_factory=dict)  # of the paper, by language
    rubric: Rubric = field(default_factory=Rubric)  # by which texts are rated
    more_rubrics: dict[str, Rubric] = field(default_factory=dict)  # asked for by name

    def question(self, code: str) -> QuestionType:
        """The type of this code; of a code that was imported from elsewhere, a multiple-choice question."""
        return next((question for question in self.questions if question.code == code), QuestionType(code, code))

    def rubric_called(self, name: str) -> Rubric:
        """The main one without a name."""
        if name and name not in self.more_rubrics:
            raise UserError(f"rubric: {self.title} has no '{name}'; {hint(name, sorted(self.more_rubrics))}")
        return self.more_rubrics[name] if name else self.rubric

    def prompts_in(self, language: str) -> PublishedPrompts | None:
        return self.prompts.get(language)

    def prompts_note(self, language: str) -> PromptsNote | None:
        own = self.prompts.get(language)
        return None if own is None else PromptsNote(own.source, own.system, own.translated)

    def type_of(self, item: Item) -> QuestionType:
        return self.question(item.subtask)


_DECLARED: dict[str, Benchmark] = {}


def declare(benchmark: Benchmark) -> None:
    """Make a benchmark known that stands elsewhere than in `panendofm/vqa/benchmarks/`."""
    _DECLARED[benchmark.name] = benchmark


def find_benchmark(name: str) -> Benchmark:
    if name not in _DECLARED:
        from panendofm.vqa import benchmarks

        for module in pkgutil.iter_modules(benchmarks.__path__):
            declare(importlib.import_module(f"{benchmarks.__name__}.{module.name}").BENCHMARK)
    if name not in _DECLARED:
        raise UserError(f"benchmark: there is no '{name}'; {hint(name, sorted(_DECLARED))}")
    return _DECLARED[name]
