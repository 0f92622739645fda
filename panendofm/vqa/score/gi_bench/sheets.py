"""What a contestant said about each picture of a bench with five questions about one lesion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from panendofm.scoring.answers.localization import BoxReply, iou_with_truth, read_boxes
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.client.answers import Answer, AnswerSet
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.people.ratings import answer_key, without_disclaimer
from panendofm.vqa.score.verdicts import Verdict, verdict_of


@dataclass
class Sheet:
    """What one contestant did: verdicts, boxes and ratings by the picture's checksum."""

    name: str
    kind: str
    variant: Variant = field(default_factory=Variant)
    q1: dict[str, Verdict] = field(default_factory=dict)
    q3: dict[str, Verdict] = field(default_factory=dict)
    q2: dict[str, BoxReply] = field(default_factory=dict)
    replies: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # task → picture → text
    ratings: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))  # task → picture → mean
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)  # key of a text → (task, picture)
    asked: set[str] = field(default_factory=set)  # ids of the questions that it was asked
    convention: str = "pixel"
    _overlaps: dict[str, float] = field(default_factory=dict, repr=False)  # of Q2, by question: asked for often

    def value(self, column: str, item: Item) -> float | None:
        """The picture's value in a column: right or wrong, overlap, mean rating; None: not rated."""
        sha256 = item.sha256
        if column in ("q1", "q3"):
            return float((self.q1 if column == "q1" else self.q3)[sha256].right)
        if column == "q2":
            if item.id not in self._overlaps:
                truth = [region.box for region in item.targets]
                self._overlaps[item.id] = iou_with_truth(truth, self.q2[sha256].boxes)
            return self._overlaps[item.id]
        return self.ratings[column].get(sha256)

    def chosen(self, item: Item) -> str | None:
        """The text of the option that was chosen for a question."""
        letter = (self.q1 if item.task == "Q1" else self.q3)[item.sha256].chosen
        return None if letter is None else item.options[ord(letter) - ord("A")]


def sheet_of(bench: Bench, answers: AnswerSet, mode: str, blind: bool = False, repeat: int = 0) -> Sheet:
    """Read all replies to one variant; what is missing counts as an error, and so as wrong."""
    variant = Variant(prompt=next(iter(answers.answers))[1].prompt, blind=blind, repeat=repeat)
    sheet = Sheet(answers.name, answers.run.get("kind", "model"), variant)
    sheet.convention = answers.run.get("box_convention", "pixel")
    for item in bench.items:
        answer = answers.answers.get((item.id, variant))
        if answer is not None:
            sheet.asked.add(item.id)
        if item.kind == "choice":
            (sheet.q1 if item.task == "Q1" else sheet.q3)[item.sha256] = verdict_of(item, answer, mode)
            continue
        reply = "" if answer is None or answer.error is not None else answer.response
        sheet.replies[item.task][item.sha256] = reply
        if item.kind == "box":
            sheet.q2[item.sha256] = _box_reply(item, answer, sheet.convention)
        elif answer is not None:
            sheet.keys[answer_key(answers.name, answer)] = (item.task.lower(), item.sha256)
    return sheet


def _box_reply(item: Item, answer: Answer | None, convention: str) -> BoxReply:
    if answer is None or answer.error is not None:
        return BoxReply("error")
    if answer.finish_reason == "content_filter" and not answer.response:
        return BoxReply("refused")
    return read_boxes(answer.response, (item.width, item.height), convention, answer.finish_reason != "length")


def parsed_rows(bench: Bench, sheets: Sequence[Sheet]) -> Iterator[dict[str, Any]]:
    """What was made of each reply, for parsed.jsonl: one row a question that was asked."""
    for sheet in sheets:
        for item in bench.items:
            if item.id not in sheet.asked:
                continue
            row = {"id": item.id, "model": sheet.name, "variant": sheet.variant.to_dict(), "task": item.task}
            if item.kind == "choice":
                yield row | (sheet.q1 if item.task == "Q1" else sheet.q3)[item.sha256].__dict__
            elif item.kind == "box":
                found = sheet.q2[item.sha256]
                overlap = sheet.value("q2", item) if item.targets else None
                yield row | {"status": found.status, "boxes": [list(box) for box in found.boxes], "iou": overlap}
            else:
                text = without_disclaimer(sheet.replies[item.task][item.sha256], bench)
                rating = sheet.ratings[item.task.lower()].get(item.sha256)
                yield row | {"status": "ok" if text else "empty", "text": text, "rating": rating}
