"""Five questions about one lesion: where, box, diagnosis, findings, advice; as far as there are data for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from panendofm.atlas import Region
from panendofm.backbone.networks import find_network
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, read_json_lines
from panendofm.scoring.answers.localization import corner_iou
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.images.prepare import Prepared
from panendofm.vqa.bench.images.sources import CONSENSUS, Picture, read_sources
from panendofm.vqa.bench.items import Draft, Item, MarkedRegion, question_id, write_bench
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.lesion_config import NEGATIVE, QUESTIONS, LesionClass, LesionConfig
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.select import select
from panendofm.vqa.bench.review import apply_review, read_review
from panendofm.vqa.features import features_of

# Annotators whose boxes overlap less mark different places.
_SAME_PLACE = 0.5


@dataclass(frozen=True)
class Reference:
    findings: str
    advice: str


def build_lesion_bench(config: BuildConfig) -> None:
    """Write the bench that the profile describes."""
    from panendofm.vqa.bench.build import licences_of, prepare_all, render_all

    lesions = config.lesions
    if not lesions.classes:
        raise UserError("lesions.classes is empty; start from configs/vqa/gi_bench.en.yaml.")
    sources = read_sources(Path(config.data), Path(config.regions) if config.regions else None, None)
    left_out = sources.left_out
    references = _read_references(Path(config.references)) if config.references else {}
    candidates = _considered(
        _candidates(sources.pictures, lesions, left_out), lesions.considered_per_class, config.seed
    )
    facts = prepare_all({c.picture.sha256: c.picture for c in candidates}, config.pictures, left_out)
    candidates = [c for c in candidates if c.picture.sha256 in facts]
    if not candidates:
        raise UserError("not one picture shows exactly one of lesions.classes; check the atlas and the findings.")
    network = find_network(config.weights)
    order = sorted({c.picture.sha256: c.picture.path for c in candidates}.items())
    vectors = dict(
        zip([sha for sha, _ in order], features_of(network, [p for _, p in order], config.device), strict=True)
    )
    chosen = select(
        candidates,
        lambda members: np.stack([vectors[m.picture.sha256] for m in members]),
        lambda subtask: lesions.negatives if subtask == NEGATIVE else lesions.per_class,
        None,
        config.seed,
    )
    there = [c for c in lesions.classes if any(x.entity == c.name for x in chosen.chosen)]
    human = _human_subset(chosen.chosen, lesions.human_per_class, config.seed)
    maker = _Maker(config, there, references, facts, left_out)
    items = [
        replace(item, human=candidate.picture.sha256 in human)
        for candidate in chosen.chosen
        for item in maker.questions(candidate)
    ]
    if references:
        used = len({item.sha256 for item in items if item.kind == "text"})
        say(f"references: {used} of {len(references)} belong to a chosen picture")
    items, reviewed = apply_review(items, read_review(Path(config.review)) if config.review else [])
    _report(items, lesions, left_out)
    with atomic_directory(config.out) as folder:
        items = render_all(items, {p.sha256: p for p in sources.pictures}, facts, folder)
        items.sort(key=lambda item: (item.task, item.id))
        notes: dict[str, Any] = {
            "profile": "gi_bench",
            "seed": config.seed,
            "q3_options": lesions.q3_options,
            "disclaimer": lesions.texts.disclaimer,
            "box_question_for_people": lesions.texts.q2_people,
            "sites": lesions.sites,
            "classes": [asdict(lesion) for lesion in there],
            "weights": {"name": network.name, "sha256": network.weights_sha256},
            "selection": chosen.report,
            "left_out": dict(sorted(left_out.items())),
            "licences": licences_of(items),
            **reviewed,
        }
        write_bench(folder, Draft(config.name, [replace(item, benchmark=config.name) for item in items], notes))
    pictures = len({item.sha256 for item in items})
    say(f"{len(items)} questions about {pictures} pictures, {len(human)} of them for people → {config.out}")


def _candidates(pictures: Sequence[Picture], lesions: LesionConfig, left_out: Counter[str]) -> list[Candidate]:
    """Pictures with exactly one of the lesions, and those that are called normal."""
    found = []
    for picture in pictures:
        shown = [lesion for lesion in lesions.classes if shows(picture, lesion)]
        normal = [
            label
            for label in picture.labels
            if label.category == "normal-findings" or label.finding in lesions.negative_findings
        ]
        if len(shown) == 1 and not normal:
            lesion = shown[0]
            found.append(Candidate("lesion", lesion.site, lesion.name, picture, lesion.site))
        elif not shown and normal and not picture.findings("pathological-findings"):
            site = lesions.site_of_region.get(normal[0].region, "")
            if site:
                found.append(Candidate(NEGATIVE, site, NEGATIVE, picture, site))
        elif len(shown) > 1:
            left_out["picture shows several of the lesions"] += 1
    return found


def _considered(candidates: Sequence[Candidate], per_class: int, seed: int) -> list[Candidate]:
    """Of a class with very many pictures only some are read; which ones doesn't depend on their order."""
    by_class: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_class[candidate.entity].append(candidate)
    return [
        candidate
        for own in by_class.values()
        for candidate in sorted(own, key=lambda c: keyed(seed, "considered", c.picture.sha256))[:per_class]
    ]


def shows(picture: Picture, lesion: LesionClass) -> bool:
    names = {label.finding for label in picture.labels}
    names |= {f"{label.finding}/{label.grade}" for label in picture.labels if label.grade}
    return bool(names & set(lesion.findings))


def _human_subset(chosen: Sequence[Candidate], per_class: int, seed: int) -> set[str]:
    """The same number of each class, by hash, of different groups."""
    by_class: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(chosen, key=lambda c: keyed(seed, "human", c.picture.sha256)):
        by_class[candidate.entity].append(candidate)
    human: set[str] = set()
    groups: set[str] = set()
    for name in sorted(by_class):
        taken = 0
        for candidate in by_class[name]:
            if taken < per_class and candidate.picture.group not in groups:
                groups.add(candidate.picture.group)
                human.add(candidate.picture.sha256)
                taken += 1
    return human


class _Maker:
    """Makes the questions of one picture."""

    def __init__(
        self,
        config: BuildConfig,
        classes: Sequence[LesionClass],
        references: dict[str, Reference],
        facts: dict[str, Prepared],
        left_out: Counter[str],
    ) -> None:
        self._left_out = left_out
        self._config, self._classes, self._references, self._facts = config, list(classes), references, facts
        self._sites = list(config.lesions.sites)

    def questions(self, candidate: Candidate) -> list[Item]:
        texts = self._config.lesions.texts
        site = LETTERS[self._sites.index(candidate.scene)]
        sites = tuple(self._config.lesions.sites.values())
        made = [self._item(candidate, "Q1", "choice", texts.q1, sites, site)]
        box = self._box(candidate)
        if box is not None:
            made.append(box)
        names = [c.name for c in self._classes if self._config.lesions.q3_options == "all" or c.site == candidate.scene]
        options = (*names, texts.none)
        answer = LETTERS[len(names) if candidate.entity == NEGATIVE else names.index(candidate.entity)]
        made.append(self._item(candidate, "Q3", "choice", texts.q3, options, answer))
        reference = self._references.get(candidate.picture.sha256) or self._references.get(candidate.picture.source)
        if reference is not None:
            for task, question, text in (("Q4", texts.q4, reference.findings), ("Q5", texts.q5, reference.advice)):
                if text:
                    ending = f" {texts.disclaimer}" if texts.disclaimer else ""
                    item = self._item(candidate, task, "text", question + ending, (), "")
                    made.append(replace(item, reference=text))
        return made

    def _box(self, candidate: Candidate) -> Item | None:
        """Where the lesion is; the true answer without a lesion is none."""
        prepared = self._facts[candidate.picture.sha256]
        width, height = prepared.size
        question = self._config.lesions.texts.q2.format(width=width, height=height)
        item = self._item(candidate, "Q2", "box", question, (), "")
        if candidate.entity == NEGATIVE:
            return item
        lesion = next(c for c in self._classes if c.name == candidate.entity)
        own = [r for r in candidate.picture.regions if r.label.finding in {f.split("/")[0] for f in lesion.findings}]
        names = sorted({region.annotator for region in own} - {""})
        if len(names) > 1:
            marked = self._annotated(candidate, own, prepared)
        else:
            marked = _marked(candidate.entity, own, prepared)
        if sum(region.target for region in marked) > 1 and self._config.lesions.several_boxes == "leave_out":
            self._left_out["box question: several boxes of the lesion (lesions.several_boxes=union merges them)"] += 1
            return None
        if not marked:
            return None
        return replace(item, regions=tuple(marked))

    def _annotated(self, candidate: Candidate, own: Sequence[Region], prepared: Prepared) -> list[MarkedRegion]:
        """What several people marked: their consensus is asked for, and the boxes of each are kept beside it."""
        by_name: dict[str, list[Region]] = defaultdict(list)
        for region in own:
            by_name[region.annotator].append(region)
        agreed = _marked(candidate.entity, by_name.pop(CONSENSUS, []), prepared)
        single = {name: _marked(candidate.entity, mine, prepared) for name, mine in sorted(by_name.items()) if name}
        if not agreed:
            agreed = consensus_of([marked[0] for marked in single.values() if len(marked) == 1])
            if len(single) < 2 or any(len(marked) != 1 for marked in single.values()) or not agreed:
                self._left_out["box question: the annotators mark different places"] += 1
                return []
        beside = [replace(r, target=False, annotator=name) for name, marked in single.items() for r in marked]
        return [*agreed, *beside]

    def _item(
        self, candidate: Candidate, task: str, kind: str, question: str, options: tuple[str, ...], answer: str
    ) -> Item:
        picture, prepared = candidate.picture, self._facts[candidate.picture.sha256]
        return Item(
            id=question_id(picture.sha256, task, self._config.name),
            task=task,
            subtask=task,
            category="lesion",
            scene=candidate.scene,
            prompt_kind="image",
            kind=kind,
            sha256=picture.sha256,
            group=picture.group,
            image="",
            width=prepared.size[0],
            height=prepared.size[1],
            question=question,
            options=options,
            answer=answer,
            entity=candidate.entity,
            dataset="+".join(picture.datasets),
            source=picture.source,
            question_original=question,
            template=task,
            system=self._config.lesions.texts.system,
            natural_order=True,
        )


def _marked(name: str, regions: Sequence[Region], prepared: Prepared) -> list[MarkedRegion]:
    return [
        MarkedRegion(name, "", box, prepared.polygon(region.polygon), target=True)
        for region in regions
        if (box := prepared.box(region.box)) is not None
    ]


def consensus_of(marked: Sequence[MarkedRegion]) -> list[MarkedRegion]:
    """One box whose sides lie in the middle of the annotators'; none when two of them share less than half."""
    boxes = np.array([region.box for region in marked], float).reshape(-1, 4)
    if not len(boxes) or corner_iou(boxes, boxes).min() < _SAME_PLACE:
        return []
    x1, y1, x2, y2 = (round(float(side)) for side in boxes.mean(axis=0))
    return [MarkedRegion(marked[0].name, "", (x1, y1, x2, y2), target=True)]


def _read_references(path: Path) -> dict[str, Reference]:
    """JSONL: id (a picture's sha256 or file name), q4, q5, author."""
    found = {}
    for number, line in enumerate(read_json_lines(path), 1):
        if not isinstance(line, dict) or not line.get("id") or not (line.get("q4") or line.get("q5")):
            raise UserError(f"{path}, line {number}: a reference needs id (sha256 or file name) and q4 or q5.")
        found[str(line["id"])] = Reference(str(line.get("q4") or ""), str(line.get("q5") or ""))
    return found


def _report(items: Sequence[Item], lesions: LesionConfig, left_out: Counter[str]) -> None:
    counts = Counter((item.entity, item.task) for item in items)
    names = [*(lesion.name for lesion in lesions.classes), NEGATIVE]
    rows = [[name, *(str(counts[(name, question)]) for question in QUESTIONS)] for name in names]
    table("questions by class", ["class", *QUESTIONS], rows)
    for reason, count in sorted(left_out.items()):
        say(f"left out: {count} × {reason}")
