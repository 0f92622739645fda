"""Questions about one lesion: images that show exactly one, as far as there are data for each question type."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from panendofm.atlas import Region
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_lines
from panendofm.scoring.answers.localization import corner_iou
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench, LesionNote, Manifest
from panendofm.vqa.bench.config import BuildConfig, LesionClass, LesionConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import CONSENSUS, SourceImage
from panendofm.vqa.bench.items import NEGATIVE, Item, MarkedRegion, question_id
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.benchmark import Benchmark, Example, QuestionType
from panendofm.vqa.published_prompts import PublishedPrompts

# Annotators whose boxes overlap less mark different places.
_SAME_PLACE = 0.5
_LESION = "lesion"


@dataclass(frozen=True)
class Case:
    """One chosen image, and all that its questions are made of."""

    candidate: Candidate
    prepared: Prepared
    config: BuildConfig
    classes: Sequence[LesionClass]  # those with images
    prompts: PublishedPrompts | None
    references: dict[str, str]  # text by code of the question type
    left_out: Counter[str]

    @property
    def lesions(self) -> LesionConfig:
        return self.config.lesions

    @property
    def negative(self) -> bool:
        return self.candidate.entity == NEGATIVE


Maker = Callable[[Case, Item], Item | None]  # completes what all questions of an image share; None: no data for it
Examples = Callable[[SourceImage, LesionClass, LesionNote], Sequence[tuple[str, Sequence[float] | None]]]


@dataclass(frozen=True, kw_only=True)
class LesionQuestion(QuestionType):
    """`make` says what is asked about an image, `examples` what an encoder learns from one: entities, with boxes."""

    make: Maker
    examples: Examples = lambda image, lesion, note: ()

    def wording(self, lesions: LesionConfig) -> str:
        text = lesions.texts.get(self.code.lower(), "") or "".join(self.wordings[:1])
        if not text:
            raise UserError(f"lesions.texts.{self.code.lower()} has no value; it is how {self.title} is asked for.")
        return text


class LesionBuilder:
    """Builds a benchmark whose types are all `LesionQuestion`."""

    def __init__(self, benchmark: Benchmark, config: BuildConfig, left_out: Counter[str]) -> None:
        if config.human_questions:
            raise UserError("human_questions: here people answer whole images; set lesions.human_per_class instead.")
        if not config.lesions.classes:
            raise UserError("lesions.classes is empty; start from configs/vqa/gi_bench.en.yaml.")
        questions = [question for question in benchmark.questions if isinstance(question, LesionQuestion)]
        wanted = config.tasks
        self._questions = [q for q in questions if not wanted or q.code in wanted or q.task in wanted]
        self._config = config
        self._lesions = config.lesions
        self._prompts = benchmark.prompts_in(config.lesions.language)
        self._prompts_note = benchmark.prompts_note(config.lesions.language)
        self._left_out = left_out
        self._references = _read_references(Path(config.references), questions) if config.references else {}
        self._shown: list[LesionClass] = []  # classes with images

    def candidates(self, images: Sequence[SourceImage]) -> list[Candidate]:
        """Images with exactly one of the lesions, and those that are called normal."""
        found: dict[str, list[Candidate]] = defaultdict(list)
        for image in images:
            shown = [lesion for lesion in self._lesions.classes if shows(image, lesion)]
            normal = [
                label
                for label in image.labels
                if label.category == "normal-findings" or label.finding in self._lesions.negative_findings
            ]
            if len(shown) == 1 and not normal:
                lesion = shown[0]
                found[lesion.name].append(Candidate(_LESION, lesion.site, lesion.name, image, lesion.site))
            elif not shown and normal and not image.findings("pathological-findings"):
                site = self._lesions.site_of_region.get(normal[0].region, "")
                if site:
                    found[NEGATIVE].append(Candidate(NEGATIVE, site, NEGATIVE, image, site))
            elif len(shown) > 1:
                self._left_out["image shows several of the lesions"] += 1
        # Of a class with very many images only some are read; which ones doesn't depend on their order.
        seed = self._config.seed
        return [
            candidate
            for own in found.values()
            for candidate in sorted(own, key=lambda c: keyed(seed, "considered", c.image.sha256))[
                : self._lesions.considered_per_class
            ]
        ]

    def usable(self, candidates: list[Candidate]) -> list[Candidate]:
        if not candidates:
            raise UserError("not one image shows exactly one of lesions.classes; check the atlas and the findings.")
        return candidates

    def cap(self, pool: str) -> int:
        return self._lesions.negatives if pool == NEGATIVE else self._lesions.per_class

    def items(self, chosen: Sequence[Candidate], facts: dict[str, Prepared]) -> list[Item]:
        self._shown = [lesion for lesion in self._lesions.classes if any(c.entity == lesion.name for c in chosen)]
        human = _human_subset(chosen, self._lesions.human_per_class, self._config.seed)
        items = []
        referenced = 0
        for candidate in chosen:
            image = candidate.image
            references = self._references.get(image.sha256) or self._references.get(image.source) or {}
            referenced += bool(references)
            case = Case(
                candidate, facts[image.sha256], self._config, self._shown, self._prompts, references, self._left_out
            )
            for question in self._questions:
                item = question.make(case, _item(case, question))
                if item is not None:
                    items.append(replace(item, human=image.sha256 in human))
        if self._references:
            say(f"references: {referenced} of {len(self._references)} belong to a chosen image")
        return sorted(items, key=lambda item: (item.task, item.id))

    def for_people(self, items: list[Item]) -> list[Item]:
        """Whole images: they are marked where the questions are made."""
        return items

    def complete(self, manifest: Manifest) -> Manifest:
        texts = self._lesions.texts
        wordings = {q.code: texts.get(f"{q.code.lower()}_people") or q.for_people for q in self._questions}
        return replace(
            manifest,
            disclaimer=texts.get("disclaimer", ""),
            questions_for_people={code: wording for code, wording in wordings.items() if wording},
            published_prompts=self._prompts_note,
            lesions=LesionNote(self._lesions.sites, self._shown, self._lesions.diagnosis_options),
        )

    def report(self, items: Sequence[Item]) -> None:
        counts = Counter((item.entity, item.subtask) for item in items)
        codes = [question.code for question in self._questions]
        names = [*(lesion.name for lesion in self._lesions.classes), NEGATIVE]
        rows = [[name, *(str(counts[(name, code)]) for code in codes)] for name in names]
        table("questions by class", ["class", *codes], rows)


def _item(case: Case, question: LesionQuestion) -> Item:
    """What all questions about an image have in common, and the wording."""
    width, height = case.prepared.size
    text = question.wording(case.lesions).replace("{width}", str(width)).replace("{height}", str(height))
    id_ = question_id(case.candidate.image.sha256, question.code, case.config.name)
    item = question.draft(case.candidate, case.prepared, id_, text, question.code)
    prompts = case.prompts
    if prompts is not None:
        published = prompts.text(question.code, id_, case.config.seed, {})
        item = replace(item, published=published, open_ended=prompts.open_text(question.code))
    return replace(item, system=case.lesions.texts.get("system", ""), natural_order=True)


def shows(image: SourceImage, lesion: LesionClass) -> bool:
    names = {label.finding for label in image.labels}
    names |= {f"{label.finding}/{label.grade}" for label in image.labels if label.grade}
    return bool(names & set(lesion.findings))


def _human_subset(chosen: Sequence[Candidate], per_class: int, seed: int) -> set[str]:
    """The same number of each class, by hash, of different groups."""
    by_class: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(chosen, key=lambda c: keyed(seed, "human", c.image.sha256)):
        by_class[candidate.entity].append(candidate)
    human: set[str] = set()
    groups: set[str] = set()
    for name in sorted(by_class):
        taken = 0
        for candidate in by_class[name]:
            if taken < per_class and candidate.image.group not in groups:
                groups.add(candidate.image.group)
                human.add(candidate.image.sha256)
                taken += 1
    return human


def _read_references(path: Path, questions: Sequence[LesionQuestion]) -> dict[str, dict[str, str]]:
    """JSONL: id (an image's sha256 or file name), a text for each code of a question type in lower case, author."""
    codes = [question.code for question in questions if question.kind.rated]
    found = {}
    for number, line in enumerate(read_json_lines(path), 1):
        texts = {code: str(line[code.lower()]) for code in codes if line.get(code.lower())}
        if not line.get("id") or not texts:
            names = " or ".join(code.lower() for code in codes)
            raise UserError(f"{path}, line {number}: a reference needs id (sha256 or file name) and {names}.")
        found[str(line["id"])] = texts
    return found


# ------------------------------------------------------------------------------------------ what may be asked


def ask_site(case: Case, item: Item) -> Item:
    sites = case.lesions.sites
    answer = LETTERS[list(sites).index(case.candidate.scene)]
    return replace(item, options=tuple(sites.values()), answer=answer)


def ask_diagnosis(case: Case, item: Item) -> Item:
    every = case.lesions.diagnosis_options == "all"
    names = [lesion.name for lesion in case.classes if every or lesion.site == case.candidate.scene]
    place = len(names) if case.negative else names.index(case.candidate.entity)
    return replace(item, options=(*names, case.lesions.texts.get("none", "none")), answer=LETTERS[place])


def ask_text(case: Case, item: Item) -> Item | None:
    """A text is asked for where there is a reference to compare it with."""
    reference = case.references.get(item.subtask)
    if not reference:
        return None
    disclaimer = case.lesions.texts.get("disclaimer", "")
    text = f"{item.question} {disclaimer}" if disclaimer else item.question
    return replace(item, question=text, question_original=text, reference=reference)


def ask_box(case: Case, item: Item) -> Item | None:
    """Where the lesion is; the true answer without a lesion is none."""
    if case.negative:
        return item
    lesion = next(lesion for lesion in case.classes if lesion.name == case.candidate.entity)
    own = _regions_of(case.candidate.image, lesion)
    annotators = {region.annotator for region in own} - {""}
    marked = _annotated(case, own) if len(annotators) > 1 else _marked(case, own)
    if sum(region.target for region in marked) > 1 and case.lesions.several_boxes == "leave_out":
        case.left_out["box question: several boxes of the lesion (lesions.several_boxes=union merges them)"] += 1
        return None
    return replace(item, regions=tuple(marked)) if marked else None


def _regions_of(image: SourceImage, lesion: LesionClass) -> list[Region]:
    findings = {finding.split("/")[0] for finding in lesion.findings}
    return [region for region in image.regions if region.label.finding in findings]


def _marked(case: Case, regions: Sequence[Region]) -> list[MarkedRegion]:
    return [
        MarkedRegion(case.candidate.entity, "", box, case.prepared.polygon(region.polygon), target=True)
        for region in regions
        if (box := case.prepared.box(region.box)) is not None
    ]


def _annotated(case: Case, own: Sequence[Region]) -> list[MarkedRegion]:
    """What several people marked: their consensus is asked for, and the boxes of each are kept beside it."""
    by_name: dict[str, list[Region]] = defaultdict(list)
    for region in own:
        by_name[region.annotator].append(region)
    agreed = _marked(case, by_name.pop(CONSENSUS, []))
    single = {name: _marked(case, mine) for name, mine in sorted(by_name.items()) if name}
    if not agreed:
        agreed = consensus_of([marked[0] for marked in single.values() if len(marked) == 1])
        if len(single) < 2 or any(len(marked) != 1 for marked in single.values()) or not agreed:
            case.left_out["box question: the annotators mark different places"] += 1
            return []
    beside = [replace(r, target=False, annotator=name) for name, marked in single.items() for r in marked]
    return [*agreed, *beside]


def consensus_of(marked: Sequence[MarkedRegion]) -> list[MarkedRegion]:
    """One box whose sides lie in the middle of the annotators'; none when two of them share less than half."""
    boxes = np.array([region.box for region in marked], float).reshape(-1, 4)
    if not len(boxes) or corner_iou(boxes, boxes).min() < _SAME_PLACE:
        return []
    x1, y1, x2, y2 = (round(float(side)) for side in boxes.mean(axis=0))
    return [MarkedRegion(marked[0].name, "", (x1, y1, x2, y2), target=True)]


# ------------------------------------------------------------------------------------------ what may be learned


def learn_site(image: SourceImage, lesion: LesionClass, note: LesionNote) -> list[tuple[str, None]]:
    return [(note.sites[lesion.site], None)]


def learn_diagnosis(image: SourceImage, lesion: LesionClass, note: LesionNote) -> list[tuple[str, None]]:
    return [(lesion.name, None)]


def learn_box(image: SourceImage, lesion: LesionClass, note: LesionNote) -> list[tuple[str, Sequence[float]]]:
    return [(lesion.name, region.box) for region in _regions_of(image, lesion)]


def examples_of_lesions(benchmark: Benchmark, bench: Bench, images: Sequence[SourceImage]) -> list[Example]:
    """What an encoder can learn from: images that show exactly one of the bench's lesions."""
    note = bench.manifest.lesions
    assert note is not None, "a bench about lesions says which"
    found = []
    for image in images:
        shown = [lesion for lesion in note.classes if shows(image, lesion)]
        if len(shown) != 1:
            continue
        for question in benchmark.questions:
            if isinstance(question, LesionQuestion):
                for entity, box in question.examples(image, shown[0], note):
                    found.append(Example(question.head, image, entity, None if box is None else tuple(box)))
    return found
