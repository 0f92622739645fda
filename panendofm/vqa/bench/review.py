"""Physicians' decisions about questions: a CSV that is applied when the bench is built again, and a page to make it.

Columns: id, decision (keep, drop or fix), answer (the right letter, for fix), note, reviewer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.reports import render_page
from panendofm.runtime.console import warn
from panendofm.runtime.csv_files import read_csv, unescaped
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench, ReviewNote
from panendofm.vqa.bench.items import Item
from panendofm.vqa.drawn_images import drawn_image, lettered_options, true_marks
from panendofm.vqa.reply_kinds import BOX, kind_of

COLUMNS = ("id", "decision", "answer", "note", "reviewer")
_DECISIONS = ("keep", "drop", "fix")


@dataclass(frozen=True)
class Decision:
    id: str
    decision: str
    answer: str
    note: str
    reviewer: str


@dataclass(frozen=True)
class Review:
    """What physicians decided."""

    reviewed: int
    note: ReviewNote


def read_review(path: Path) -> list[Decision]:
    decisions = []
    for number, row in enumerate(read_csv(path, COLUMNS[:2]), 2):
        if not row["decision"].strip():
            continue  # not looked at yet
        decision = Decision(*(unescaped(row.get(column, "").strip()) for column in COLUMNS))
        if decision.decision not in _DECISIONS:
            raise UserError(f"{path}, line {number}: the decision is keep, drop or fix, not '{decision.decision}'.")
        if decision.decision == "fix" and not re.fullmatch("[A-Z]", decision.answer):
            raise UserError(f"{path}, line {number}: 'fix' needs the letter of the right answer.")
        decisions.append(decision)
    return decisions


def apply_review(items: Sequence[Item], decisions: Sequence[Decision]) -> tuple[list[Item], Review]:
    """The questions that stay, and what was decided. What reviewers disagree on stays as it was."""
    by_id: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for decision in decisions:
        answer = decision.answer if decision.decision == "fix" else ""
        by_id[decision.id].add((decision.decision, answer))
    kept = []
    disagreements = []
    dropped = 0
    fixed = 0
    for item in items:
        own = by_id.get(item.id, set())
        verdict, letter = next(iter(own)) if len(own) == 1 else ("keep", "")
        if len(own) > 1:
            disagreements.append(item.id)
        if verdict == "drop":
            dropped += 1
            continue
        if verdict == "fix":
            if letter not in LETTERS[: len(item.options)]:
                raise UserError(f"review: {item.id} has no option {letter}; correct the line.")
            item = replace(item, answer=letter)
            fixed += 1
        kept.append(item)
    gone = sorted(set(by_id) - {item.id for item in items})
    if gone:
        warn(f"the review decides on {len(gone)} questions that this build does not make; the first is {gone[0]}.")
    reviewers = len({decision.reviewer for decision in decisions})
    reviewed = sum(item.id in by_id for item in items)
    return kept, Review(reviewed, ReviewNote(reviewers, dropped, fixed, disagreements))


def write_review_page(bench: Bench, out: Path) -> None:
    """review.html shows every question with its image; its button saves what was decided as review.csv."""
    by_image: dict[str, list[Item]] = defaultdict(list)  # an image stands once, with all its questions
    for item in bench.items:
        by_image[item.image].append(item)
    blocks = []
    for items in by_image.values():
        marks = [mark for item in items if kind_of(item) is BOX for mark in true_marks(item)]
        blocks.append((drawn_image(bench, items[0], marks, None), items))
    page = render_page(
        "panendofm.vqa",
        "review.html",
        title=f"Review of {bench.manifest.name}",
        questions=len(bench.items),
        blocks=blocks,
        options=lettered_options,
        truth=_truth,
        decisions=_DECISIONS,
    )
    write_text(out, page)


def _truth(item: Item) -> str:
    """What counts as right where there are no options to choose from."""
    return "; ".join(str(list(box)) for box in item.target_boxes) if item.targets else kind_of(item).truth(item)
