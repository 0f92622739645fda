"""Wrong options: of the same kind as the answer, and certainly wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.keys import shuffled
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.vocabulary import Vocabulary

DISTRACTORS = 3


@dataclass(frozen=True)
class Alike:
    """In which respects a wrong option must be like the answer."""

    scene: bool = False
    place: bool = False
    category: bool = False


@dataclass(frozen=True)
class _Occurrence:
    """Where an entity occurs as an answer."""

    scene: str
    place: str
    category: str


class Pools:
    """The entities that are answers of each pool: only these may be wrong options there.

    An option that is never right would give itself away.
    """

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._known: dict[str, dict[str, set[_Occurrence]]] = defaultdict(lambda: defaultdict(set))
        for candidate in candidates:
            occurrence = _Occurrence(candidate.scene, candidate.place, candidate.category)
            self._known[candidate.pool][candidate.entity].add(occurrence)

    def entities(self, pool: str) -> list[str]:
        return sorted(self._known.get(pool, ()))

    def alike(self, candidate: Candidate, alike: Alike) -> list[str]:
        """Entities of the pool that occur in the same scene, place and category, as far as these are asked for."""
        return sorted(
            entity
            for entity, occurrences in self._known[candidate.pool].items()
            if any(
                (not alike.scene or own.scene == candidate.scene)
                and (not alike.place or own.place == candidate.place)
                and (not alike.category or own.category == candidate.category)
                for own in occurrences
            )
        )


def true_of(image: SourceImage) -> set[str]:
    """Everything that is true of an image, on every level."""
    labels = [*image.labels, *(region.label for region in image.regions)]
    true = {part for label in labels for part in (label.region, label.finding, label.grade) if part}
    if image.annotation is not None:
        true |= {image.annotation.phase, image.annotation.step, image.annotation.action} - {""}
    return true


def grades_of(image: SourceImage) -> set[str]:
    """All kinds of a polyp are polyps: only what is true of its kind counts."""
    return {label.grade for label in image.labels if label.grade}


def wrong_options(
    candidate: Candidate, true: set[str], steps: Sequence[Alike], pools: Pools, vocabulary: Vocabulary, seed: int
) -> list[str]:
    """Up to three entities that are of the answer's kind and not `true`; fewer where there are no more.

    The first of `steps` that leaves three is taken.
    """
    pool: list[str] = []
    for alike in steps:
        pool = [
            entity
            for entity in pools.alike(candidate, alike)
            if not any(entity == known or vocabulary.may_both_be_true(known, entity) for known in true)
        ]
        if len(pool) >= DISTRACTORS:
            break
    return shuffled(pool, seed, "distractors", candidate.key)[:DISTRACTORS]
