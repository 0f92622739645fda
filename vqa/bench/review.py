"""Physicians' decisions about questions: a CSV that is applied when the bench is built again, and a page to make it.

Columns: id, decision (keep, drop or fix), answer (the right letter, for fix), note, reviewer.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime import pages
from runtime.console import warn
from runtime.csv_files import unescaped
from runtime.errors import UserError
from runtime.files import read_text, write_text
from scoring.replies import LETTERS
from vqa.bench.items import Bench, Item

COLUMNS = ("id", "decision", "answer", "note", "reviewer")
_DECISIONS = ("keep", "drop", "fix")


@dataclass(frozen=True)
class Decision:
    id: str
    decision: str
    answer: str
    note: str
    reviewer: str


def read_review(path: Path) -> list[Decision]:
    rows = csv.DictReader(io.StringIO(read_text(path).removeprefix("\ufeff")))
    missing = [column for column in COLUMNS[:2] if column not in (rows.fieldnames or ())]
    if missing:
        raise UserError(f"{path}: the column '{missing[0]}' is missing; a review has {', '.join(COLUMNS)}.")
    decisions = []
    for number, row in enumerate(rows, 2):
        if not (row.get("decision") or "").strip():
            continue  # not looked at yet
        decision = Decision(*(unescaped((row.get(column) or "").strip()) for column in COLUMNS))
        if decision.decision not in _DECISIONS:
            raise UserError(f"{path}, line {number}: the decision is keep, drop or fix, not '{decision.decision}'.")
        if decision.decision == "fix" and not re.fullmatch("[A-Z]", decision.answer):
            raise UserError(f"{path}, line {number}: 'fix' needs the letter of the right answer.")
        decisions.append(decision)
    return decisions


def apply_review(items: Sequence[Item], decisions: Sequence[Decision]) -> tuple[list[Item], dict[str, object]]:
    """The questions that stay, and what the manifest says of the review. What reviewers disagree on stays as it was."""
    by_id: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        by_id[decision.id].append(decision)
    kept, disagreements, dropped, fixed = [], [], 0, 0
    for item in items:
        own = {(d.decision, d.answer if d.decision == "fix" else "") for d in by_id.get(item.id, ())}
        if len(own) > 1:
            disagreements.append(item.id)
        elif own and next(iter(own))[0] == "drop":
            dropped += 1
            continue
        elif own and next(iter(own))[0] == "fix":
            letter = next(iter(own))[1]
            if letter not in LETTERS[: len(item.options)]:
                raise UserError(f"review: {item.id} has no option {letter}; correct the line.")
            item = replace(item, answer=letter)
            fixed += 1
        kept.append(item)
    gone = sorted(set(by_id) - {item.id for item in items})
    if gone:
        warn(f"the review decides on {len(gone)} questions that this build does not make; the first is {gone[0]}.")
    reviewed = sum(item.id in by_id for item in items)
    reviewers = len({d.reviewer for d in decisions})
    notes = {"reviewers": reviewers, "dropped": dropped, "fixed": fixed, "disagreements": disagreements}
    return kept, {"reviewed": reviewed, "review": notes}


def write_review_page(bench: Bench, out: Path) -> None:
    """review.html shows every question with its picture; its button saves what was decided as review.csv."""
    cards = []
    for item in bench.items:
        kind = "png" if item.image.endswith("png") else "jpeg"
        picture = pages.image(bench.picture(item), item.id, kind) if item.image else ""
        options = "".join(
            f"<li{' class=right' if letter == item.answer else ''}>{letter}. {pages.text(option)}</li>"
            for letter, option in zip(LETTERS, item.options, strict=False)
        )
        letters = "".join(f"<option>{letter}</option>" for letter in LETTERS[: len(item.options)])
        cards.append(
            f'<div class="card" data-id="{item.id}">{picture}<p><b>{item.subtask}</b> {pages.text(item.question)}</p>'
            f"<ul>{options}</ul><label>decision <select class=decision><option></option><option>keep</option>"
            f"<option>drop</option><option>fix</option></select></label> <label>answer <select class=answer>"
            f"<option></option>{letters}</select></label> <label>kind of error <select class=tag><option></option>"
            "<option>perception</option><option>knowledge</option></select></label> "
            '<input class=note placeholder="note"></div>'
        )
    body = (
        f"<h1>Review of {pages.text(bench.manifest['name'])}</h1>"
        '<p>Reviewer <input id=reviewer placeholder="a number or a code, no name"> '
        "<button onclick=save()>save review.csv</button></p>" + "".join(cards) + f"<script>{_SAVE}</script>"
    )
    write_text(
        out, pages.page("Review", body, ".card{margin:1rem 0} li.right{font-weight:700} .card img{max-height:24rem}")
    )


_SAVE = """
function save() {
  const safe = s => /^'*[=+\\-@\\t\\r]/.test(s) ? "'" + s : s;  // no formula for a spreadsheet
  const quote = s => '"' + safe(s).replaceAll('"', '""') + '"';
  const lines = ['id,decision,answer,note,reviewer'];
  for (const card of document.querySelectorAll('.card')) {
    const get = name => card.querySelector('.' + name).value;
    const note = [get('tag'), get('note')].filter(Boolean).join(': ');
    if (get('decision')) lines.push([card.dataset.id, get('decision'), get('answer'), note,
      document.getElementById('reviewer').value].map(quote).join(','));
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([lines.join('\\n') + '\\n'], {type: 'text/csv'}));
  link.download = 'review.csv';
  link.click();
}
"""
