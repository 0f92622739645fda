"""What could be asked about each picture: its entities, task by task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from panendofm.atlas import AMBIGUOUS, Label, Region
from panendofm.vqa.bench.images.sources import Picture
from panendofm.vqa.bench.keys import shuffled
from panendofm.vqa.bench.questions.tasks import COUNTS
from panendofm.vqa.bench.questions.vocabulary import Vocabulary

NORMAL = "normal"
_NOT_HISTOLOGY = ("sessile", AMBIGUOUS)
_BETWEEN_GRADES = re.compile(r"(\d)-(\d)$")
_POLYP = re.compile(r"polyp")
REGION_TASK = "regions"  # one choice of pictures for all spatial sub-tasks


@dataclass(frozen=True)
class Candidate:
    """A question that could be made: a picture and the true answer, or a picture and one of its regions."""

    subtask: str  # REGION_TASK for regions
    scene: str
    entity: str
    picture: Picture
    place: str = ""  # organ, to prefer distractors of the same one
    category: str = ""
    region: int | None = None  # number among the picture's regions
    detail: str = ""  # the instrument that is asked for

    @property
    def key(self) -> str:
        where = "" if self.region is None else ",".join(str(v) for v in self.picture.regions[self.region].box)
        return "|".join([self.picture.sha256, self.subtask, self.entity, self.detail, where])


def all_candidates(pictures: Sequence[Picture], vocabulary: Vocabulary) -> list[Candidate]:
    """What may be asked about each picture; of each kind of question about instruments there is one a picture."""
    instruments = sorted({x for p in pictures if p.annotation for x in p.annotation.instruments or ()})
    found: list[Candidate] = []
    for picture in pictures:
        found += candidates_of(picture, vocabulary)
        if picture.annotation is not None and picture.annotation.instruments is not None:
            there = picture.annotation.instruments
            for answer, names in (("Yes", there), ("No", [x for x in instruments if x not in there])):
                if names:
                    named = shuffled(names, picture.sha256, "instrument")[0]
                    found.append(
                        Candidate("IP", "SE", answer, picture, picture.annotation.operation, "IP", detail=named)
                    )
    return found


def candidates_of(picture: Picture, vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Everything that may be asked about a picture, whole and region by region."""
    if picture.labels:
        yield from _labels(picture, vocabulary)
        yield from _counts(picture, vocabulary)
    if picture.annotation is not None:
        yield from _operation(picture)
    for number, region in enumerate(picture.regions):
        label = region.label
        yield Candidate(
            REGION_TASK,
            vocabulary.scene(label, picture.datasets),
            label.finding,
            picture,
            label.region,
            label.category,
            number,
        )


def _labels(picture: Picture, vocabulary: Vocabulary) -> Iterator[Candidate]:
    def ask(subtask: str, label: Label, entity: str) -> Candidate:
        scene = vocabulary.scene(label, picture.datasets)
        return Candidate(subtask, scene, entity, picture, label.region, label.category)

    by_category = {category: [x for x in picture.labels if x.category == category] for category in _CATEGORIES}
    organs = {label.region for label in picture.labels} - {"unknown"}
    if len(organs) == 1 and all(label.region != "unknown" for label in picture.labels):
        organ = next(iter(organs))
        whole = Label(organ, picture.labels[0].category, picture.labels[0].finding)
        yield ask("OI", whole, organ)
    # What shows two things of one kind has no single answer.
    for subtask, category in (("LI", "anatomical-landmarks"), ("TI", "therapeutic-procedures")):
        if len({label.finding for label in by_category[category]}) == 1:
            yield ask(subtask, by_category[category][0], by_category[category][0].finding)
    lesions, normal = by_category["pathological-findings"], by_category["normal-findings"]
    if len({label.finding for label in lesions}) == 1 and not normal:
        yield ask("LC", lesions[0], lesions[0].finding)
        yield from _grades(picture, lesions, ask)
    elif normal and not lesions:
        yield ask("LC", normal[0], NORMAL)
    preparation = {label.finding for label in by_category["quality-control"]} & {"BBPS-0-1", "BBPS-2-3"}
    if len(preparation) == 1:
        label = next(x for x in by_category["quality-control"] if x.finding in preparation)
        yield ask("PA", label, label.finding)


_CATEGORIES = (
    "anatomical-landmarks", "therapeutic-procedures", "pathological-findings", "normal-findings", "quality-control",
)  # fmt: skip


def _grades(picture: Picture, lesions: list[Label], ask: Callable[[str, Label, str], Candidate]) -> Iterator[Candidate]:
    """Histology of a polyp, severity of a colitis; a grade between two steps is an answer of its own."""
    grades = {label.grade for label in lesions if label.grade}
    if len(grades) != 1:
        return
    grade, finding = next(iter(grades)), lesions[0].finding
    label = next(x for x in lesions if x.grade == grade)
    if finding == "colon-polyp" and grade not in _NOT_HISTOLOGY:
        yield ask("PT", label, grade)
    if finding == "ulcerative-colitis":
        if grade == AMBIGUOUS:
            between = [match for own in picture.own_labels if (match := _BETWEEN_GRADES.search(own))]
            if len(between) != 1:
                return
            grade = f"MAYO-{between[0][1]}-{between[0][2]}"
        yield ask("LS", label, grade)


def _counts(picture: Picture, vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Polyps are counted where masks show all of them; none are there where the picture is called normal."""
    findings = picture.findings("pathological-findings")
    normal = [label for label in picture.labels if label.category == "normal-findings"]
    polyps = [region for region in picture.regions if _is_polyp(region)]
    if picture.all_marked and polyps:
        label = polyps[0].label
        entity = COUNTS[min(len(polyps), len(COUNTS) - 1)]
    elif normal and not findings and not picture.regions:
        label, entity = normal[0], COUNTS[0]
    else:
        return
    yield Candidate("LQ", vocabulary.scene(label, picture.datasets), entity, picture, label.region, label.category)


def _is_polyp(region: Region) -> bool:
    return _POLYP.search(region.label.finding) is not None


def _operation(picture: Picture) -> Iterator[Candidate]:
    annotation = picture.annotation
    assert annotation is not None
    place = annotation.operation
    for subtask, entity in (("SP", annotation.phase), ("SS", annotation.step), ("SA", annotation.action)):
        if entity:
            yield Candidate(subtask, "SE", entity, picture, place, subtask)
    if annotation.instruments is not None:
        yield Candidate("IC", "SE", str(len(annotation.instruments)), picture, place, "IC")
