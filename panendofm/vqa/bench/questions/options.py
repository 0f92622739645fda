"""Wrong options: of the same kind as the answer, and certainly wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from panendofm.vqa.bench.images.sources import Picture
from panendofm.vqa.bench.keys import shuffled
from panendofm.vqa.bench.questions.candidates import REGION_TASK, Candidate
from panendofm.vqa.bench.questions.tasks import COUNTS, YES_NO
from panendofm.vqa.bench.questions.vocabulary import Vocabulary

DISTRACTORS = 3
_GRADES = ("MAYO-0", "MAYO-0-1", "MAYO-1", "MAYO-1-2", "MAYO-2", "MAYO-2-3", "MAYO-3")
_PREPARATION = ("BBPS-0-1", "BBPS-2-3")


@dataclass(frozen=True)
class Kind:
    """Where an entity occurs as an answer."""

    scene: str
    place: str
    category: str


class Pools:
    """The entities that are answers of each sub-task: only these may be wrong options there.

    An option that is never right would give itself away.
    """

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._kinds: dict[str, dict[str, set[Kind]]] = defaultdict(lambda: defaultdict(set))
        for candidate in candidates:
            kind = Kind(candidate.scene, candidate.place, candidate.category)
            self._kinds[candidate.subtask][candidate.entity].add(kind)

    def entities(self, subtask: str) -> list[str]:
        return sorted(self._kinds.get(subtask, ()))

    def alike(self, candidate: Candidate, scene: bool, place: bool, category: bool) -> list[str]:
        """Entities of the sub-task that occur in the same scene, place and category, as far as these are asked for."""
        return sorted(
            entity
            for entity, kinds in self._kinds[candidate.subtask].items()
            if any(
                (not scene or kind.scene == candidate.scene)
                and (not place or kind.place == candidate.place)
                and (not category or kind.category == candidate.category)
                for kind in kinds
            )
        )


def true_of(picture: Picture) -> set[str]:
    """Everything that is true of a picture, on every level."""
    labels = [*picture.labels, *(region.label for region in picture.regions)]
    true = {part for label in labels for part in (label.region, label.finding, label.grade) if part}
    if picture.annotation is not None:
        true |= {picture.annotation.phase, picture.annotation.step, picture.annotation.action} - {""}
    return true


def natural_options(candidate: Candidate, pools: Pools) -> list[str] | None:
    """All options in their order, for sub-tasks that have one; entities, not names."""
    match candidate.subtask:
        case "LQ":
            return list(COUNTS)
        case "IP":
            return list(YES_NO)
        case "LS":
            return [grade for grade in _GRADES if grade in pools.entities("LS")]
        case "PA":
            return list(_PREPARATION)
        case "IC":
            first = max(0, int(candidate.entity) - 2)
            return [str(number) for number in range(first, first + DISTRACTORS + 1)]
        case _:
            return None


def wrong_options(candidate: Candidate, pools: Pools, vocabulary: Vocabulary, seed: int) -> list[str]:
    """Up to three entities that are of the answer's kind and wrong for this picture; fewer where there are no more."""
    true = true_of(candidate.picture) | {candidate.entity}
    if candidate.subtask == "PT":
        # All kinds of a polyp are polyps: only what is true of its kind counts.
        true = {label.grade for label in candidate.picture.labels if label.grade}

    def certainly_wrong(entities: list[str]) -> list[str]:
        return [e for e in entities if not any(e == t or vocabulary.may_both_be_true(t, e) for t in true)]

    if candidate.subtask == "OI":
        # An organ's examination tells the organ: all organs are of one kind.
        steps = [(False, False, False)]
    elif candidate.subtask == REGION_TASK:
        steps = [(True, True, True), (True, False, True), (True, False, False)]
    else:
        steps = [(True, True, False), (True, False, False)]
    pool: list[str] = []
    for scene, place, category in steps:
        pool = certainly_wrong(pools.alike(candidate, scene, place, category))
        if len(pool) >= DISTRACTORS:
            break
    return shuffled(pool, seed, "distractors", candidate.key)[:DISTRACTORS]
