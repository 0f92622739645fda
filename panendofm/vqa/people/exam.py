"""The exam: a reader sees one picture at a time and answers its questions; the box is drawn with the mouse."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.locks import directory_lock
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.keys import keyed, shuffled
from panendofm.vqa.people.local_server import Content, LocalServer, json_content
from panendofm.vqa.people.readers import ReaderFile, check_code
from panendofm.vqa.people.wording import question_for_people


@dataclass
class Exam:
    """One reader's way through the pictures of the human subset, in an order of their own."""

    bench: Bench
    reader: str
    group: str
    file: ReaderFile

    def __post_init__(self) -> None:
        self.items = {i.id: i for i in self.bench.items if i.human and not _only_for_models(i)}
        if not self.items:
            raise UserError(
                f"{self.bench.folder}: no question is meant for people; build with lesions.human_per_class."
            )
        pictures = {item.sha256: item for item in self.items.values()}
        self.order = sorted(pictures, key=lambda sha256: keyed("exam", self.reader, sha256))
        self.answered = {row["id"] for row in self.file.rows(self.bench)}

    def questions(self, sha256: str) -> list[Item]:
        ids = [item.id for item in self.items.values() if item.sha256 == sha256]
        return [self.items[id_] for id_ in shuffled(ids, "exam order", self.reader)]

    def state(self) -> dict[str, Any]:
        """What the page shows next: questions and options, never an answer, a class or a name."""
        total = len(self.items)
        progress = {"done": len(self.answered), "total": total, "locked": self.file.locked}
        for number, sha256 in enumerate(self.order):
            missing = [item for item in self.questions(sha256) if item.id not in self.answered]
            if missing:
                shown = [
                    {
                        "id": item.id,
                        "kind": item.kind,
                        "text": question_for_people(self.bench, item),
                        "options": [[LETTERS[n], option] for n, option in enumerate(item.options)],
                    }
                    for item in missing
                ]
                first = self.questions(sha256)[0]
                return {**progress, "picture": first.id, "number": number + 1, "pictures": len(self.order),
                        "width": first.width, "height": first.height, "questions": shown}  # fmt: skip
        return progress

    def picture(self, id_: str) -> Content:
        item = self._item(id_)
        kind = "image/png" if item.image.endswith(".png") else "image/jpeg"
        return kind, self.bench.picture(item)

    def answer(self, values: dict[str, Any]) -> dict[str, Any]:
        item = self._item(str(values.get("id", "")))
        response = str(values.get("response", "")).strip()
        if not response:
            raise UserError("the answer is empty.")
        if item.kind == "choice" and response not in LETTERS[: len(item.options)]:
            raise UserError("choose one of the options.")
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = {
            "id": item.id,
            "reader": self.reader,
            "group": self.group,
            "response": response,
            "seconds": round(float(values.get("seconds") or 0), 1),
            "order": len(self.answered),
            "time": now,
            "bench_sha256": self.bench.checksum,
        }
        self.file.append(row)
        self.answered.add(item.id)
        return self.state()

    def lock(self) -> dict[str, Any]:
        missing = len(self.items) - len(self.answered)
        if missing:
            raise UserError(f"{missing} questions are not answered yet.")
        self.file.lock(len(self.items))
        return self.state()

    def _item(self, id_: str) -> Item:
        if id_ not in self.items:
            raise UserError("there is no such question.")
        return self.items[id_]


def _only_for_models(item: Item) -> bool:
    """Nobody reads coordinates off a picture."""
    return item.prompt_kind == "coordinate"


def serve_exam(bench: Bench, people: Path, reader: str, group: str, port: int = 0) -> None:
    check_code(reader, "reader")
    check_code(group, "group")
    file = ReaderFile(people, reader)
    file.open(group, bench)
    if file.locked:
        raise UserError(f"{reader} has finished this exam; the answers are locked in {file.answers}.")
    with directory_lock(people / f".{reader}"):
        exam = Exam(bench, reader, group, file)
        page = (
            resources.files("panendofm.vqa.people").joinpath("pages", "exam.html").read_text(encoding="utf-8").encode()
        )
        server = LocalServer(
            {
                "/": lambda values: ("text/html", page),
                "/state": lambda values: json_content(exam.state()),
                "/picture": lambda values: exam.picture(str(values.get("id", ""))),
            },
            {
                "/answer": lambda values: json_content(exam.answer(values)),
                "/lock": lambda values: json_content(exam.lock()),
            },
            port,
        )
        server.serve()
