"""What could be asked about images: their entities, found by the labels, regions and annotations of an atlas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from panendofm.atlas import AMBIGUOUS, Label
from panendofm.vqa.bench.images.annotation import Annotation
from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.keys import shuffled
from panendofm.vqa.bench.questions.vocabulary import Vocabulary

NORMAL = "normal"
COUNTS = ("0", "1", "2", "3", "4", "More than 4")
YES_NO = ("Yes", "No")
_SURGERY = "SE"
_NOT_HISTOLOGY = ("sessile", AMBIGUOUS)
_BETWEEN_GRADES = re.compile(r"(\d)-(\d)$")
_PREPARATION = {"BBPS-0-1", "BBPS-2-3"}


@dataclass(frozen=True)
class Candidate:
    """A question that could be made: an image and the true answer, or an image and one of its regions."""

    pool: str  # its entities are the possible answers
    scene: str
    entity: str
    image: SourceImage
    place: str = ""  # organ, to prefer distractors of the same one
    category: str = ""
    region: int | None = None  # number among the image's regions
    detail: str = ""  # the instrument that is asked for

    @property
    def key(self) -> str:
        where = "" if self.region is None else ",".join(str(v) for v in self.image.regions[self.region].box)
        return "|".join([self.image.sha256, self.pool, self.entity, self.detail, where])


Finder = Callable[[str, Sequence[SourceImage], Vocabulary], Iterator[Candidate]]  # pool, images → candidates
Labeled = Callable[[SourceImage], tuple[Label, str] | None]  # the label that tells the entity, and the entity


def by_label(entity_of: Labeled) -> Finder:
    """One candidate for each image that has exactly one such entity."""

    def find(pool: str, images: Sequence[SourceImage], vocabulary: Vocabulary) -> Iterator[Candidate]:
        for image in images:
            found = entity_of(image) if image.labels else None
            if found is not None:
                label, entity = found
                scene = vocabulary.scene(label, image.datasets)
                yield Candidate(pool, scene, entity, image, label.region, label.category)

    return find


def by_annotation(entity_of: Callable[[Annotation], str]) -> Finder:
    """One candidate for each moment of an operation of which this is known."""

    def find(pool: str, images: Sequence[SourceImage], vocabulary: Vocabulary) -> Iterator[Candidate]:
        for image in images:
            if image.annotation is not None and (entity := entity_of(image.annotation)):
                yield Candidate(pool, _SURGERY, entity, image, image.annotation.operation, pool)

    return find


def _of_category(image: SourceImage, category: str) -> list[Label]:
    return [label for label in image.labels if label.category == category]


def organ(image: SourceImage) -> tuple[Label, str] | None:
    organs = {label.region for label in image.labels}
    if len(organs) != 1 or "unknown" in organs:
        return None
    first = image.labels[0]
    return Label(first.region, first.category, first.finding), first.region


def single_finding(category: str) -> Labeled:
    """What shows two things of one kind has no single answer."""

    def find(image: SourceImage) -> tuple[Label, str] | None:
        labels = _of_category(image, category)
        return (labels[0], labels[0].finding) if len({label.finding for label in labels}) == 1 else None

    return find


def lesion(image: SourceImage) -> tuple[Label, str] | None:
    """The one lesion of an image, or «normal»."""
    lesions = _of_category(image, "pathological-findings")
    normal = _of_category(image, "normal-findings")
    if len({label.finding for label in lesions}) == 1 and not normal:
        return lesions[0], lesions[0].finding
    return (normal[0], NORMAL) if normal and not lesions else None


def _grade(image: SourceImage, finding: str) -> tuple[Label, str] | None:
    """The one grade of an image whose one lesion is this."""
    found = lesion(image)
    if found is None or found[1] != finding:
        return None
    graded = [label for label in _of_category(image, "pathological-findings") if label.grade]
    grades = {label.grade for label in graded}
    return (graded[0], graded[0].grade or "") if len(grades) == 1 else None


def histology(image: SourceImage) -> tuple[Label, str] | None:
    found = _grade(image, "colon-polyp")
    return found if found is not None and found[1] not in _NOT_HISTOLOGY else None


def severity(image: SourceImage) -> tuple[Label, str] | None:
    """The grade of a colitis; one between two steps is an answer of its own."""
    found = _grade(image, "ulcerative-colitis")
    if found is None or found[1] != AMBIGUOUS:
        return found
    between = [match for own in image.own_labels if (match := _BETWEEN_GRADES.search(own))]
    return (found[0], f"MAYO-{between[0][1]}-{between[0][2]}") if len(between) == 1 else None


def preparation(image: SourceImage) -> tuple[Label, str] | None:
    labels = [label for label in _of_category(image, "quality-control") if label.finding in _PREPARATION]
    return (labels[0], labels[0].finding) if len({label.finding for label in labels}) == 1 else None


def polyp_count(image: SourceImage) -> tuple[Label, str] | None:
    """Polyps are counted where masks show all of them; none are there where the image is called normal."""
    normal = _of_category(image, "normal-findings")
    polyps = [region for region in image.regions if "polyp" in region.label.finding]
    if image.all_marked and polyps:
        return polyps[0].label, COUNTS[min(len(polyps), len(COUNTS) - 1)]
    if normal and not image.findings("pathological-findings") and not image.regions:
        return normal[0], COUNTS[0]
    return None


def instrument_count(annotation: Annotation) -> str:
    return "" if annotation.instruments is None else str(len(annotation.instruments))


def instrument_presence(pool: str, images: Sequence[SourceImage], vocabulary: Vocabulary) -> Iterator[Candidate]:
    """Of each image one instrument that is there, and one that is not."""
    known = sorted({name for image in images if image.annotation for name in image.annotation.instruments or ()})
    for image in images:
        if image.annotation is None or image.annotation.instruments is None:
            continue
        there = image.annotation.instruments
        absent = [name for name in known if name not in there]
        for answer, names in zip(YES_NO, (there, absent), strict=True):
            if names:
                named = shuffled(names, image.sha256, "instrument")[0]
                yield Candidate(pool, _SURGERY, answer, image, image.annotation.operation, pool, detail=named)


def regions(pool: str, images: Sequence[SourceImage], vocabulary: Vocabulary) -> Iterator[Candidate]:
    for image in images:
        for number, region in enumerate(image.regions):
            label = region.label
            scene = vocabulary.scene(label, image.datasets)
            yield Candidate(pool, scene, label.finding, image, label.region, label.category, number)
