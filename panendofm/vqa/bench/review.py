"""Physicians' decisions about questions: a CSV that is applied when the bench is built again, and a page to make it.

Columns: id, decision (keep, drop or fix), answer (the right letter, for fix), note, reviewer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.reports import pages
from panendofm.runtime.console import warn
from panendofm.runtime.csv_files import read_csv, unescaped
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Bench, Item

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
    by_picture: dict[str, list[Item]] = defaultdict(list)  # a picture stands once, with all its questions
    for item in bench.items:
        by_picture[item.image].append(item)
    blocks = "".join(
        f'<div class="block">{_picture(bench, items)}<div>{"".join(_card(item) for item in items)}</div></div>'
        for items in by_picture.values()
    )
    body = (
        f"<h1>Review of {pages.text(bench.manifest['name'])}</h1>"
        f'<p class="quiet">{len(bench.items)} questions about {len(by_picture)} pictures. The right option is bold, a '
        "true box green. What has no decision is left as it is.</p>"
        '<p class="head">Reviewer <input id=reviewer placeholder="a number or a code, no name"> '
        f"<button onclick=save()>save review.csv</button></p>{blocks}<script>{_SAVE}</script>"
    )
    write_text(out, pages.page("Review", body, _STYLE))


def _picture(bench: Bench, items: Sequence[Item]) -> str:
    """The picture, with the true boxes of its box question."""
    first = items[0]
    if not first.image:
        return "<div></div>"
    kind = "png" if first.image.endswith("png") else "jpeg"
    boxes = "".join(
        f'<rect x="{x1}" y="{y1}" width="{x2 - x1}" height="{y2 - y1}" fill="none" stroke="#19c819" stroke-width="3"/>'
        for item in items
        if item.kind == "box"
        for x1, y1, x2, y2 in (region.box for region in item.targets)
    )
    shown = pages.image(bench.picture(first), first.id, kind)
    return f'<div class="drawn">{shown}<svg viewBox="0 0 {first.width} {first.height}">{boxes}</svg></div>'


def _card(item: Item) -> str:
    options = "".join(
        f"<li{' class=right' if letter == item.answer else ''}>{letter}. {pages.text(option)}</li>"
        for letter, option in zip(LETTERS, item.options, strict=False)
    )
    letters = "".join(f"<option>{letter}</option>" for letter in LETTERS[: len(item.options)])
    truth = f"<ul>{options}</ul>" if options else f"<p>{pages.text(_truth(item))}</p>"
    decisions = "".join(f"<option>{name}</option>" for name in _DECISIONS if name != "fix" or item.options)
    answer = f"<label>answer <select class=answer><option></option>{letters}</select></label> " if letters else ""
    return (
        f'<div class="card" data-id="{item.id}"><p><b>{item.subtask}</b> {pages.text(item.question)}</p>{truth}'
        f"<label>decision <select class=decision><option></option>{decisions}</select></label> {answer}"
        "<label>kind of error <select class=tag><option></option><option>perception</option><option>knowledge"
        '</option></select></label> <input class=note placeholder="note"></div>'
    )


def _truth(item: Item) -> str:
    """What counts as right where there are no options to choose from."""
    if item.kind == "box":
        return "; ".join(str(list(region.box)) for region in item.targets) or "None"
    return item.reference


_STYLE = """
.block { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); align-items: start; }
.block { gap: 1rem; margin: 1.5rem 0; }
.card { margin: 0 0 0.6rem; } .card p, .card ul { margin: 0.2rem 0 0.5rem; overflow-wrap: anywhere; }
.card ul { columns: 13rem; } li.right { font-weight: 700; } .card label { white-space: nowrap; margin-right: 0.5rem; }
.drawn { position: sticky; top: 3.5rem; } .drawn img { display: block; width: 100%; }
.drawn svg { position: absolute; left: 0; top: 0; width: 100%; height: 100%; }
.head { position: sticky; top: 0; background: #fafafa; padding: 0.5rem 0; z-index: 1; }
@media (max-width: 700px) { .block { grid-template-columns: minmax(0, 1fr); } .drawn { position: relative; top: 0; } }
"""

_SAVE = """
function save() {
  const safe = s => /^'*[=+\\-@\\t\\r]/.test(s) ? "'" + s : s;  // no formula for a spreadsheet
  const quote = s => '"' + safe(s).replaceAll('"', '""') + '"';
  const lines = ['id,decision,answer,note,reviewer'];
  for (const card of document.querySelectorAll('.card')) {
    const get = name => card.querySelector('.' + name)?.value ?? '';
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
