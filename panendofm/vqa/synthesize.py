"""Made-up contestants and readers, written from the truth: to try the scoring before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import generator
from panendofm.vqa.client.answers import MADE_UP, Answer, Run, Variant, write_answers
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile
from panendofm.vqa.reply_kinds import BOX, kind_of

# Code, group and share of right answers.
READERS = (("junior-1", "junior", 0.85), ("trainee-1", "trainee", 0.55))


def synthesize(bench: Bench, out: Path) -> None:
    """answers/perfect and answers/shifted, and the locked exams of two readers in people/."""
    if not any(item.human for item in bench.items):
        raise UserError(f"{bench.folder}: no question is meant for people, so there is nobody to make up.")
    replies = {"perfect": right_reply, "shifted": shifted_reply}
    for name, reply in replies.items():
        _write_answers(bench, out / "answers" / name, reply)
    for reader, group, share in READERS:
        _write_exam(bench, ReaderFile(out / "people", reader), group, share)
    say(f"perfect and shifted answers → {out / 'answers'}; two made-up readers → {out / 'people'}")


def right_reply(item: Item) -> str:
    return kind_of(item).truth(item)


def shifted_reply(item: Item) -> str:
    """Right, but for boxes, which lie beside the lesion."""
    return BOX.wrong(item, generator()) if kind_of(item) is BOX else right_reply(item)


def _write_answers(bench: Bench, folder: Path, reply: Callable[[Item], str]) -> None:
    answers = [Answer(item.id, Variant(), folder.name, reply(item)) for item in bench.items]
    run = Run(bench.checksum, folder.name, MADE_UP, bench.manifest.name)
    write_answers(folder, run, answers)


def _write_exam(bench: Bench, file: ReaderFile, group: str, share: float) -> None:
    """A reader who is right in about this share of questions; where the exam is written already, it stays."""
    file.open(group, bench)
    if file.locked:
        return
    items = bench.for_people
    done = {row.id for row in file.rows(bench)}
    for order, item in enumerate(items):
        random = generator("made-up reader", file.reader, item.id)
        kind = kind_of(item)
        reply = kind.truth(item) if random.uniform() < share else kind.wrong(item, random)
        seconds = round(float(random.uniform(4, 20)), 1)
        if item.id not in done:
            file.append(ReaderAnswer(item.id, file.reader, group, reply, seconds, order, bench.checksum))
    file.lock(len(items))
