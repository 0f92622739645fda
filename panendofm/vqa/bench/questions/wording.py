"""From a chosen candidate to a question: text, options, marks. No pixels are needed for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.config import DistractorConfig
from panendofm.vqa.bench.images.draw import COLOURS, SINGLE
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.items import Box, Item, MarkedRegion, question_id
from panendofm.vqa.bench.keys import generator, keyed, shuffled
from panendofm.vqa.bench.questions.candidates import REGION_TASK, Candidate
from panendofm.vqa.bench.questions.distractors import draw_distractors
from panendofm.vqa.bench.questions.options import DISTRACTORS, Pools, natural_options, wrong_options
from panendofm.vqa.bench.questions.tasks import REGION, SUBTASKS
from panendofm.vqa.bench.questions.templates import Templates
from panendofm.vqa.bench.questions.vocabulary import Vocabulary

_COLOURS = list(COLOURS)
_MOST_MARKED = 4
_MIN_IN_VIEW = 0.5


@dataclass(frozen=True)
class Planned:
    """A question before its letters and colours are dealt: the answer first, then the wrong options."""

    candidate: Candidate
    subtask: str
    options: tuple[str, ...]
    natural_order: bool = False
    answer: str = ""  # of a natural order
    target: MarkedRegion | None = None
    others: tuple[MarkedRegion, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.candidate.key}|{self.subtask}"


@dataclass
class Planner:
    """Makes questions of candidates and counts those that can't be made, by reason."""

    pools: Pools
    vocabulary: Vocabulary
    templates: Templates
    distractors: DistractorConfig
    min_region_px: int
    state_size: bool
    seed: int
    left_out: Counter[str] = field(default_factory=Counter)

    def plan(self, candidate: Candidate, prepared: Prepared, subtasks: Sequence[str]) -> list[Planned]:
        """All questions that a candidate gives."""
        if candidate.subtask != REGION_TASK:
            planned = self._whole(candidate) if candidate.subtask in subtasks else None
            return [planned] if planned else []
        target = self._marked(candidate, candidate.region, prepared)
        if target is None:
            self.left_out["regions: too small, or not in the field of view"] += 1
            return []
        wrong = wrong_options(candidate, self.pools, self.vocabulary, self.seed)
        made = [self._region(candidate, s, target, prepared, wrong) for s in REGION if s in subtasks]
        return [question for question in made if question is not None]

    def _whole(self, candidate: Candidate) -> Planned | None:
        name = self.vocabulary.name
        natural = natural_options(candidate, self.pools)
        if natural is not None:
            if len(natural) < 2:
                self.left_out[f"{candidate.subtask}: no other option"] += 1
                return None
            answer = LETTERS[natural.index(candidate.entity)]
            return Planned(candidate, candidate.subtask, tuple(name(e) for e in natural), True, answer)
        wrong = wrong_options(candidate, self.pools, self.vocabulary, self.seed)
        if not wrong:
            self.left_out[f"{candidate.subtask}: no other option"] += 1
            return None
        return Planned(candidate, candidate.subtask, tuple(name(e) for e in (candidate.entity, *wrong)))

    def _marked(self, candidate: Candidate, number: int | None, prepared: Prepared) -> MarkedRegion | None:
        assert number is not None
        region = candidate.picture.regions[number]
        box = prepared.box(region.box)
        if box is None or min(box[2] - box[0], box[3] - box[1]) < self.min_region_px:
            return None
        if prepared.inside_share(_row(box))[0] < _MIN_IN_VIEW:
            return None
        polygon = prepared.polygon(region.polygon)
        return MarkedRegion(region.label.finding, "", box, polygon, target=number == candidate.region)

    def _region(
        self, candidate: Candidate, subtask: str, target: MarkedRegion, prepared: Prepared, wrong: list[str]
    ) -> Planned | None:
        if subtask in ("VG", "RS"):
            return self._box_question(candidate, subtask, target, prepared)
        if not wrong:
            self.left_out[f"{subtask}: no other option"] += 1
            return None
        options = tuple(self.vocabulary.name(e) for e in (candidate.entity, *wrong))
        if subtask == "RR_contour" and len(target.polygon) < 3:
            self.left_out["RR_contour: no outline"] += 1
            return None
        others: tuple[MarkedRegion, ...] = ()
        if subtask == "RR_multi":
            others = self._other_regions(candidate, target, prepared)
            if not others:
                self.left_out["RR_multi: no second region of another name"] += 1
                return None
        return Planned(candidate, subtask, options, target=target, others=others)

    def _other_regions(
        self, candidate: Candidate, target: MarkedRegion, prepared: Prepared
    ) -> tuple[MarkedRegion, ...]:
        """Up to three further regions, of which at least one has another name."""
        numbers = [str(n) for n in range(len(candidate.picture.regions)) if n != candidate.region]
        marked = [
            region
            for number in shuffled(numbers, self.seed, "marks", candidate.key)
            if (region := self._marked(candidate, int(number), prepared)) is not None and region.box != target.box
        ]
        foreign = [region for region in marked if region.name != target.name]
        if not foreign:
            return ()
        rest = [region for region in marked if region is not foreign[0]]
        return (foreign[0], *rest)[: _MOST_MARKED - 1]

    def _box_question(
        self, candidate: Candidate, subtask: str, target: MarkedRegion, prepared: Prepared
    ) -> Planned | None:
        named = [r for r in candidate.picture.regions if r.label.finding == candidate.entity]
        true_boxes = [box for region in named if (box := prepared.box(region.box)) is not None]
        random = generator(self.seed, "boxes", candidate.key)  # the same boxes for both kinds of question
        boxes = draw_distractors(
            target.box, true_boxes, DISTRACTORS, prepared.size, prepared.inside_share, self.distractors, random
        )
        if boxes is None:
            self.left_out[f"{subtask}: no room for other boxes"] += 1
            return None
        others = tuple(MarkedRegion("", "", box) for box in boxes)
        options = tuple(_coordinates(region.box) for region in (target, *others)) if subtask == "VG" else ()
        return Planned(candidate, subtask, options, target=target, others=others)

    # ---------------------------------------------------------------------------- letters and colours

    def deal(self, planned: Sequence[Planned], facts: dict[str, Prepared]) -> list[Item]:
        """Give every question its letter, so that within a task each letter is right equally often; and its colours."""
        by_kind: dict[tuple[str, int], list[Planned]] = defaultdict(list)
        for question in planned:
            options = len(question.options) or len(_COLOURS)
            by_kind[(SUBTASKS[question.subtask].task, options)].append(question)
        items = []
        for (task, options), questions in sorted(by_kind.items(), key=lambda pair: pair[0]):
            # Along each entity in the order of a hash: so letters are balanced within entities as well.
            questions.sort(key=lambda q: (q.subtask, q.candidate.entity, keyed(self.seed, "deal", q.key), q.key))
            start = keyed(self.seed, "first letter", task, options)
            free = [q for q in questions if not q.natural_order]
            for number, question in enumerate(free):
                place = (start + number) % options
                colour = (start + number + number // len(_COLOURS)) % len(_COLOURS)
                items.append(self._item(question, facts, place, colour))
            items += [self._item(q, facts, LETTERS.index(q.answer), 0) for q in questions if q.natural_order]
        return sorted(items, key=lambda item: (list(SUBTASKS).index(item.subtask), item.id))

    def _item(self, question: Planned, facts: dict[str, Prepared], place: int, colour: int) -> Item:
        candidate, subtask = question.candidate, SUBTASKS[question.subtask]
        prepared = facts[candidate.picture.sha256]
        regions = self._coloured(question, colour)
        options = list(question.options)
        if question.subtask == "RS":
            options = [region.color.capitalize() for region in regions]
        if not question.natural_order:
            answer, *wrong = options
            wrong = shuffled(wrong, self.seed, "order", question.key)
            options = [*wrong[:place], answer, *wrong[place:]]
        text, template = self._text(question, regions, prepared)
        region_key = ",".join(str(v) for v in question.target.box) if question.target else candidate.detail
        return Item(
            id=question_id(candidate.picture.sha256, question.subtask, region_key, template),
            task=subtask.task,
            subtask=subtask.code,
            category=subtask.category,
            scene=candidate.scene,
            prompt_kind=subtask.prompt_kind,
            kind="choice",
            sha256=candidate.picture.sha256,
            group=candidate.picture.group,
            image="",
            width=prepared.size[0],
            height=prepared.size[1],
            question=text,
            options=tuple(options),
            answer=LETTERS[place],
            entity=candidate.entity,
            dataset="+".join(candidate.picture.datasets),
            source=candidate.picture.source,
            question_original=text,
            template=template,
            regions=tuple(regions),
            natural_order=question.natural_order,
        )

    def _coloured(self, question: Planned, colour: int) -> list[MarkedRegion]:
        """The regions, the asked one first, with the colours that they are drawn in."""
        if question.target is None:
            return []
        if question.subtask in ("RR_box", "RR_contour"):
            return [replace(question.target, color=SINGLE)]
        if question.subtask not in ("RS", "RR_multi"):
            return [question.target, *question.others]
        own = _COLOURS[colour]
        rest = shuffled([c for c in _COLOURS if c != own], self.seed, "colours", question.key)
        others = [replace(region, color=c) for region, c in zip(question.others, rest, strict=False)]
        return [replace(question.target, color=own), *others]

    def _text(self, question: Planned, regions: Sequence[MarkedRegion], prepared: Prepared) -> tuple[str, str]:
        candidate = question.candidate
        values: dict[str, object] = {"entity": _inside_a_sentence(self.vocabulary.name(candidate.entity))}
        if regions:
            values |= {"color": regions[0].color, **dict(zip(("x1", "y1", "x2", "y2"), regions[0].box, strict=True))}
        if candidate.picture.annotation is not None:
            values |= {"instrument": candidate.detail, "phase": candidate.picture.annotation.phase}
        text, template = self.templates.text(question.subtask, question.key, self.seed, values)
        if self.state_size and SUBTASKS[question.subtask].prompt_kind == "coordinate":
            text += (
                f" Boxes are [x1, y1, x2, y2] in pixels from the top left corner; the picture is {prepared.size[0]} "
                f"pixels wide and {prepared.size[1]} high."
            )
        return text, template


def _row(box: Box) -> NDArray[np.int64]:
    return np.array([box], np.int64)


def _coordinates(box: Box) -> str:
    return "[" + ", ".join(str(v) for v in box) + "]"


def _inside_a_sentence(name: str) -> str:
    """«Colon polyp» → «colon polyp»; names of people and abbreviations keep their capitals."""
    first = name.split(" ")[0]
    keep = (
        first[1:] != first[1:].lower()
        or first.endswith(("'s", "-Weiss"))
        or first in ("Z-line", "Dieulafoy", "Ampulla")
    )
    return name if keep else name[0].lower() + name[1:]
