"""Multiple-choice questions about entities, and about regions of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.questions.candidates import Candidate, Finder, regions
from panendofm.vqa.bench.questions.options import Alike, Pools, true_of
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.benchmark import Benchmark, Example, QuestionType

OptionsOf = Callable[[Candidate, Pools], Sequence[str]]
_REGIONS = "regions"


@dataclass(frozen=True, kw_only=True)
class ChoiceQuestion(QuestionType):
    """An entity of an image is asked for, beside others of its kind."""

    find: Finder
    options: OptionsOf | None = None  # all options in their natural order; None: the answer and wrong ones
    alike: tuple[Alike, ...] = (Alike(scene=True, place=True), Alike(scene=True))  # wrong options, the best first
    true: Callable[[SourceImage], set[str]] = true_of  # what can't be a wrong option
    may_ask_one_entity: bool = False  # whether a pool with one possible answer still asks something

    @property
    def pool(self) -> str:
        """Types of one pool are asked about the same chosen images."""
        return self.code

    @property
    def head(self) -> str:
        return self.pool

    def option_name(self, entity: str) -> str:
        return load_vocabulary().name(entity)


@dataclass(frozen=True, kw_only=True)
class RegionQuestion(ChoiceQuestion):
    """A marked or described region is to be named, or a named one is to be found among boxes.

    One choice of regions serves all of these, so that kinds of prompt can be compared on the same images.
    """

    asks: Literal["name", "box"] = "name"
    category: str = "spatial"
    find: Finder = regions
    alike: tuple[Alike, ...] = (
        Alike(scene=True, place=True, category=True),
        Alike(scene=True, category=True),
        Alike(scene=True),
    )
    may_ask_one_entity: bool = True

    @property
    def pool(self) -> str:
        return _REGIONS


def examples_of_entities(benchmark: Benchmark, bench: Bench, images: Sequence[SourceImage]) -> list[Example]:
    """What an encoder can learn from for the questions of a bench."""
    wanted = {benchmark.type_of(item).head for item in bench.items}
    finders = {q.pool: q.find for q in benchmark.questions if isinstance(q, ChoiceQuestion) and q.pool in wanted}
    found = []
    for pool, find in finders.items():
        for candidate in find(pool, images, load_vocabulary()):
            box = None if candidate.region is None else candidate.image.regions[candidate.region].box
            found.append(Example(pool, candidate.image, candidate.entity, box))
    return found
