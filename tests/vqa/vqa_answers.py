"""Made-up contestants and readers for benches with five questions about one lesion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile
from panendofm.vqa.synthesize import right_reply as true_box
from panendofm.vqa.synthesize import shifted_reply as shifted_box

BoxOf = Callable[[Item], str]


def permille_box(item: Item) -> str:
    if not item.regions:
        return "None"
    x1, y1, x2, y2 = item.regions[0].box
    values = (x1 / item.width, y1 / item.height, x2 / item.width, y2 / item.height)
    return str([round(1000 * v) for v in values])


def reversed_box(item: Item) -> str:
    return str(list(item.regions[0].box[2:] + item.regions[0].box[:2])) if item.regions else "None"


def no_box(item: Item) -> str:
    return "None"


def write_contestant(
    folder: Path, bench: Bench, box: BoxOf = true_box, letter: Callable[[Item], str] = lambda item: item.answer
) -> Path:
    folder.mkdir(parents=True)
    lines = []
    for item in bench.items:
        reply = letter(item) if item.kind == "choice" else box(item) if item.kind == "box" else item.reference
        lines.append(Answer(item.id, Variant(), folder.name, reply).to_line())
    (folder / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def write_reader(folder: Path, bench: Bench, reader: str, group: str, share: float, lock: bool = True) -> None:
    file = ReaderFile(folder, reader)
    file.open(group, bench)
    random = np.random.default_rng(len(reader) + int(100 * share))
    items = [item for item in bench.items if item.human]
    for order, item in enumerate(items):
        right = random.uniform() < share
        wrong = "A" if item.answer != "A" else "B"
        reply = (item.answer if right else wrong) if item.kind == "choice" else item.reference
        if item.kind == "box":
            reply = true_box(item) if right else shifted_box(item)
        file.append(ReaderAnswer(item.id, reader, group, reply, 5.0, order, bench.checksum))
    if lock:
        file.lock(len(items))
