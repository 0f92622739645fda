"""Made-up contestants and readers, written from the truth: to try the scoring before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_json, write_text
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.keys import generator
from panendofm.vqa.client.answers import ANSWERS, RUN, Answer
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.people.readers import ReaderFile

# Code, group and share of right answers.
READERS = (("junior-1", "junior", 0.85), ("trainee-1", "trainee", 0.55))


def synthesize(bench: Bench, out: Path) -> None:
    """answers/perfect and answers/shifted, and the locked exams of two readers in people/."""
    if bench.manifest.get("profile") != "gi_bench":
        raise UserError(f"{bench.folder}: only benches of the profile gi_bench have made-up contestants.")
    for name, box in (("perfect", true_box), ("shifted", shifted_box)):
        _write_answers(bench, out / "answers" / name, box)
    for reader, group, share in READERS:
        _write_exam(bench, ReaderFile(out / "people", reader), group, share)
    say(f"perfect and shifted answers → {out / 'answers'}; two made-up readers → {out / 'people'}")


def true_box(item: Item) -> str:
    return str(list(item.targets[0].box)) if item.targets else "None"


def shifted_box(item: Item) -> str:
    """The true box, moved by half its width or height where there is room: a third of the union is common."""
    if not item.targets:
        return "None"
    x1, y1, x2, y2 = item.targets[0].box
    dx, dy = (x2 - x1) / 2, (y2 - y1) / 2
    for right, down in ((dx, 0.0), (-dx, 0.0), (0.0, dy), (0.0, -dy)):
        moved = [x1 + right, y1 + down, x2 + right, y2 + down]
        if moved[0] >= 0 and moved[1] >= 0 and moved[2] <= item.width and moved[3] <= item.height:
            return str(moved)
    return str([x1, y1, x1 + 2 * dx / 3, y2])


def _write_answers(bench: Bench, folder: Path, box: Callable[[Item], str]) -> None:
    make_directory(folder)
    lines = []
    for item in bench.items:
        reply = box(item) if item.kind == "box" else item.answer or item.reference
        lines.append(Answer(item.id, Variant(), folder.name, reply).to_line())
    write_text(folder / ANSWERS, "".join(lines))
    run = {"name": folder.name, "kind": "made up", "bench": bench.manifest["name"], "bench_sha256": bench.checksum}
    write_json(folder / RUN, run)


def _write_exam(bench: Bench, file: ReaderFile, group: str, share: float) -> None:
    """A reader who is right in about this share of questions; where the exam is written already, it stays."""
    file.open(group, bench)
    if file.locked:
        return
    items = [item for item in bench.items if item.human]
    done = {row["id"] for row in file.rows(bench)}
    for order, item in enumerate(items):
        random = generator("made-up reader", file.reader, item.id)
        right = random.uniform() < share
        if item.kind == "choice":
            others = [letter for letter in LETTERS[: len(item.options)] if letter != item.answer]
            reply = item.answer if right else str(random.choice(others))
        else:
            reply = item.reference if item.kind == "text" else true_box(item) if right else shifted_box(item)
        if item.id not in done:
            file.append(
                {
                    "id": item.id,
                    "reader": file.reader,
                    "group": group,
                    "response": reply,
                    "seconds": round(float(random.uniform(4, 20)), 1),
                    "order": order,
                    "bench_sha256": bench.checksum,
                }
            )
    file.lock(len(items))
