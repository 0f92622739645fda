"""Images with everybody's boxes and replies, for the leaderboard's page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from panendofm.reports.charts.svg import color_of
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import NEGATIVE, Item, by_image
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.drawn_images import DrawnImage, Mark, drawn_image, true_marks
from panendofm.vqa.reply_kinds import BOX
from panendofm.vqa.score.by_question.estimates import columns_of
from panendofm.vqa.score.sheets import Sheet

_LONGEST_PX = 300
_PER_CLASS = 2
Overlays = list[tuple[str, list[tuple[DrawnImage, str]]]]  # contestant → images with notes


@dataclass(frozen=True)
class Card:
    """An image with everybody's boxes, and its questions by code of their type."""

    site: str
    lesion: str
    image: DrawnImage
    questions: dict[str, Item]

    @property
    def first(self) -> Item:
        return _first(self.questions)


def overlays(benchmark: Benchmark, bench: Bench, sheets: Sequence[Sheet]) -> Overlays:
    """Of each contestant the worst, median and best box: truth in green, the reply's first box in red."""
    columns = columns_of(benchmark, bench.items)
    found = []
    for question in benchmark.questions:
        for sheet in sheets if question.kind is BOX else ():
            asked = [item for item in columns.items(question.code) if sheet.asked(item)]
            scored = sorted(((sheet.value(item) or 0.0, item) for item in asked), key=lambda s: (s[0], s[1].id))
            if not scored:
                continue
            chosen = {"worst": scored[0], "median": scored[len(scored) // 2], "best of all": scored[-1]}
            images = []
            for title, (iou, item) in chosen.items():
                reply = sheet.reading(item)
                marks = true_marks(item) + [Mark(box, "#e61919", "reply", 1.0) for box in reply.boxes[:1]]
                note = f"{title}: {iou:.2f}, {item.entity}" + ("" if reply.boxes else f" (reply: {reply.status})")
                images.append((drawn_image(bench, item, marks, _LONGEST_PX), note))
            found.append((sheet.name, images))
    return found


def example_cards(bench: Bench, sheets: Sequence[Sheet]) -> list[Card]:
    """Some images of each class with all replies."""
    images = by_image(bench.items)
    by_class: dict[str, list[dict[str, Item]]] = defaultdict(list)
    # Those that people answered first: there everybody can be compared.
    for sha256 in sorted(images, key=lambda sha: (not _first(images[sha]).human, keyed("example", sha))):
        by_class[_first(images[sha256]).entity].append(images[sha256])
    chosen = [questions for name in sorted(by_class) for questions in by_class[name][:_PER_CLASS]]
    return [_card(bench, questions, sheets) for questions in chosen]


def _first(questions: dict[str, Item]) -> Item:
    """Any question of the image: a review may have dropped each of them."""
    return next(iter(questions.values()))


def _card(bench: Bench, questions: dict[str, Item], sheets: Sequence[Sheet]) -> Card:
    first = _first(questions)
    sites = bench.manifest.lesions.sites if bench.manifest.lesions else {}
    boxes = [item for item in questions.values() if item.kind == BOX.name]
    marks = [mark for item in boxes for mark in true_marks(item)]
    for number, sheet in enumerate(sheets):
        for item in boxes:
            marks += [Mark(box, color_of(number), sheet.name, 1.0) for box in sheet.reading(item).boxes[:1]]
    lesion = "no lesion" if first.entity == NEGATIVE else first.entity
    image = drawn_image(bench, first, marks, _LONGEST_PX)
    return Card(sites.get(first.scene, first.scene), lesion, image, questions)


def said(sheet: Sheet, item: Item) -> str:
    """A reply in a few words: the chosen option, the overlap of a box, or why there is none."""
    reading = sheet.reading(item)
    if reading.boxes and item.targets:
        return f"{reading.value or 0.0:.2f}"
    return sheet.chosen(item) or reading.status
