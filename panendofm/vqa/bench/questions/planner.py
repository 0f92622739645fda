"""From a chosen candidate to a question: text, options, marks. No pixels are needed for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.images.draw import COLORS, MULTI_CONTOUR, OUTLINED, SINGLE
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.items import Box, Item, MarkedRegion, question_id
from panendofm.vqa.bench.keys import generator, keyed, shuffled
from panendofm.vqa.bench.operations.source import INSTRUMENTS
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.distractors import draw_distractors
from panendofm.vqa.bench.questions.options import DISTRACTORS, Pools, wrong_options
from panendofm.vqa.bench.questions.templates import Templates
from panendofm.vqa.bench.questions.types import ChoiceQuestion, RegionQuestion
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.published_prompts import PublishedPrompts

_COLORS = list(COLORS)
_MOST_MARKED = 4
_MIN_IN_VIEW = 0.5
# Kinds of visual prompt that mark several regions, each in its color.
_SEVERAL = ("multi", MULTI_CONTOUR)


@dataclass(frozen=True)
class Planned:
    """A question before its letters and colors are dealt: the answer first, then the wrong options."""

    candidate: Candidate
    question: ChoiceQuestion
    options: tuple[str, ...]  # empty: the colors of boxes
    answer: str = ""  # the letter, where options keep a natural order
    target: MarkedRegion | None = None
    others: tuple[MarkedRegion, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.candidate.key}|{self.question.code}"

    @property
    def colored(self) -> bool:
        """Whether several regions are drawn, each in its color."""
        return self.question.prompt_kind in _SEVERAL


@dataclass
class Planner:
    """Makes questions of candidates and counts those that can't be made, by reason."""

    questions: Sequence[ChoiceQuestion]
    pools: Pools
    templates: Templates
    config: BuildConfig
    left_out: Counter[str] = field(default_factory=Counter)
    prompts: PublishedPrompts | None = None

    def plan(self, candidate: Candidate, prepared: Prepared) -> list[Planned]:
        """All questions that a candidate gives."""
        asked = [question for question in self.questions if question.pool == candidate.pool]
        if candidate.region is None:
            made = [self._whole(candidate, question) for question in asked]
        else:
            target = self._marked(candidate, candidate.region, prepared)
            if target is None:
                self.left_out["regions: too small, or not in the field of view"] += 1
                return []
            made = [self._region(candidate, q, target, prepared) for q in asked if isinstance(q, RegionQuestion)]
        return [planned for planned in made if planned is not None]

    def _whole(self, candidate: Candidate, question: ChoiceQuestion) -> Planned | None:
        if question.options is None:
            return self._named(candidate, question)
        options = list(question.options(candidate, self.pools))
        if len(options) < 2:
            self.left_out[f"{question.code}: no other option"] += 1
            return None
        names = tuple(question.option_name(entity) for entity in options)
        return Planned(candidate, question, names, answer=LETTERS[options.index(candidate.entity)])

    def _named(self, candidate: Candidate, question: ChoiceQuestion) -> Planned | None:
        """The entity beside others of its kind."""
        true = question.true(candidate.image) | {candidate.entity}
        wrong = wrong_options(candidate, true, question.alike, self.pools, load_vocabulary(), self.config.seed)
        if not wrong:
            self.left_out[f"{question.code}: no other option"] += 1
            return None
        return Planned(candidate, question, tuple(question.option_name(e) for e in (candidate.entity, *wrong)))

    def _marked(self, candidate: Candidate, number: int, prepared: Prepared) -> MarkedRegion | None:
        region = candidate.image.regions[number]
        box = prepared.box(region.box)
        if box is None or min(box[2] - box[0], box[3] - box[1]) < self.config.images.min_region_px:
            return None
        if prepared.inside_share(np.array([box], np.int64))[0] < _MIN_IN_VIEW:
            return None
        polygon = prepared.polygon(region.polygon)
        return MarkedRegion(region.label.finding, "", box, polygon, target=number == candidate.region)

    def _region(
        self, candidate: Candidate, question: RegionQuestion, target: MarkedRegion, prepared: Prepared
    ) -> Planned | None:
        if question.asks == "box":
            return self._box_question(candidate, question, target, prepared)
        planned = self._named(candidate, question)
        if planned is None:
            return None
        if question.prompt_kind in OUTLINED and len(target.polygon) < 3:
            self.left_out[f"{question.code}: no outline"] += 1
            return None
        others: tuple[MarkedRegion, ...] = ()
        if planned.colored:
            others = self._other_regions(candidate, target, prepared, question.prompt_kind in OUTLINED)
            if not others:
                self.left_out[f"{question.code}: no second region of another name"] += 1
                return None
        return replace(planned, target=target, others=others)

    def _other_regions(
        self, candidate: Candidate, target: MarkedRegion, prepared: Prepared, outlined: bool = False
    ) -> tuple[MarkedRegion, ...]:
        """Up to three further regions, of which at least one has another name; `outlined`: with a known outline."""
        numbers = [str(n) for n in range(len(candidate.image.regions)) if n != candidate.region]
        marked = [
            region
            for number in shuffled(numbers, self.config.seed, "marks", candidate.key)
            if (region := self._marked(candidate, int(number), prepared)) is not None
            and region.box != target.box
            and (not outlined or len(region.polygon) >= 3)
        ]
        foreign = [region for region in marked if region.name != target.name]
        if not foreign:
            return ()
        rest = [region for region in marked if region is not foreign[0]]
        return (foreign[0], *rest)[: _MOST_MARKED - 1]

    def _box_question(
        self, candidate: Candidate, question: RegionQuestion, target: MarkedRegion, prepared: Prepared
    ) -> Planned | None:
        named = [r for r in candidate.image.regions if r.label.finding == candidate.entity]
        true_boxes = [box for region in named if (box := prepared.box(region.box)) is not None]
        random = generator(self.config.seed, "boxes", candidate.key)  # the same boxes for both kinds of question
        boxes = draw_distractors(
            target.box, true_boxes, DISTRACTORS, prepared.size, prepared.inside_share, self.config.distractors, random
        )
        if boxes is None:
            self.left_out[f"{question.code}: no room for other boxes"] += 1
            return None
        others = tuple(MarkedRegion("", "", box) for box in boxes)
        planned = Planned(candidate, question, (), target=target, others=others)
        if planned.colored:
            return planned
        return replace(planned, options=tuple(_coordinates(region.box) for region in (target, *others)))

    # ---------------------------------------------------------------------------- letters and colors

    def deal(self, planned: Sequence[Planned], facts: dict[str, Prepared]) -> list[Item]:
        """Give every question its letter, so that within a task each letter is right equally often; and its colors."""
        by_task: dict[tuple[str, int], list[Planned]] = defaultdict(list)
        for question in planned:
            options = len(question.options) or len(_COLORS)
            by_task[(question.question.task, options)].append(question)
        items = []
        for (task, options), questions in sorted(by_task.items(), key=lambda pair: pair[0]):
            # Along each entity in the order of a hash: so letters are balanced within entities as well.
            questions.sort(key=self._deal_order)
            start = keyed(self.config.seed, "first letter", task, options)
            free = [q for q in questions if not q.answer]
            for number, question in enumerate(free):
                place = (start + number) % options
                color = (start + number + number // len(_COLORS)) % len(_COLORS)
                items.append(self._item(question, facts, place, color))
            items += [self._item(q, facts, LETTERS.index(q.answer), 0) for q in questions if q.answer]
        order = {question.code: number for number, question in enumerate(self.questions)}
        return sorted(items, key=lambda item: (order[item.subtask], item.id))

    def _deal_order(self, planned: Planned) -> tuple[str, str, int, str]:
        draw = keyed(self.config.seed, "deal", planned.key)
        return planned.question.code, planned.candidate.entity, draw, planned.key

    def _item(self, planned: Planned, facts: dict[str, Prepared], place: int, color: int) -> Item:
        candidate = planned.candidate
        question = planned.question
        prepared = facts[candidate.image.sha256]
        regions = self._regions(planned, color)
        options = list(planned.options) or [region.color.capitalize() for region in regions]
        if not planned.answer:
            answer, *wrong = options
            wrong = shuffled(wrong, self.config.seed, "order", planned.key)
            options = [*wrong[:place], answer, *wrong[place:]]
        text, template = self._text(planned, regions, prepared)
        region_key = ",".join(str(v) for v in planned.target.box) if planned.target else candidate.detail
        id_ = question_id(candidate.image.sha256, question.code, region_key, template)
        return replace(
            question.draft(candidate, prepared, id_, text, template),
            options=tuple(options),
            answer=LETTERS[place],
            regions=tuple(regions),
            natural_order=bool(planned.answer),
            published=self._published(planned, regions),
        )

    def _regions(self, planned: Planned, color: int) -> list[MarkedRegion]:
        """The regions, the asked one first, with the colors that they are drawn in."""
        if planned.target is None:
            return []
        if planned.question.prompt_kind == "coordinate":
            return [planned.target, *planned.others]
        if not planned.colored:
            return [replace(planned.target, color=SINGLE)]
        own = _COLORS[color]
        rest = shuffled([c for c in _COLORS if c != own], self.config.seed, "colours", planned.key)
        others = [replace(region, color=c) for region, c in zip(planned.others, rest, strict=False)]
        return [replace(planned.target, color=own), *others]

    def _published(self, planned: Planned, regions: Sequence[MarkedRegion]) -> str:
        """The question in the paper's words. What a source does not tell is named as loosely as can be."""
        if self.prompts is None:
            return ""
        candidate = planned.candidate
        annotation = candidate.image.annotation
        used = annotation.instruments if annotation is not None else None
        values: dict[str, object] = {
            "lesion_type": _inside_a_sentence(planned.question.option_name(candidate.entity)),
            "instrument": candidate.detail or (used[0] if used is not None and len(used) == 1 else "instrument"),
            "phase": (annotation.phase if annotation is not None else "") or "this phase",
        }
        if regions:
            values |= {"color": regions[0].color, **dict(zip(("x1", "y1", "x2", "y2"), regions[0].box, strict=True))}
        code = planned.question.code
        of_instruments = f"{code}_instrument"
        if candidate.category == INSTRUMENTS and of_instruments in self.prompts.wordings:
            code = of_instruments
        return self.prompts.text(code, planned.key, self.config.seed, values)

    def _text(self, planned: Planned, regions: Sequence[MarkedRegion], prepared: Prepared) -> tuple[str, str]:
        candidate = planned.candidate
        name = planned.question.option_name(candidate.entity)
        values: dict[str, object] = {"entity": _inside_a_sentence(name)}
        if regions:
            values |= {"color": regions[0].color, **dict(zip(("x1", "y1", "x2", "y2"), regions[0].box, strict=True))}
        if candidate.image.annotation is not None:
            values |= {"instrument": candidate.detail, "phase": candidate.image.annotation.phase}
        text, template = self.templates.text(planned.question.code, planned.key, self.config.seed, values)
        if self.config.state_size and planned.question.prompt_kind == "coordinate":
            text += (
                f" Boxes are [x1, y1, x2, y2] in pixels from the top left corner; the image is {prepared.size[0]} "
                f"pixels wide and {prepared.size[1]} high."
            )
        return text, template


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
