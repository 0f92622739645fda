"""The exam: a reader sees one image at a time and answers its questions; the box is drawn with the mouse."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.records.documents import Seconds, parse_document
from panendofm.reports import render_page
from panendofm.runtime.errors import UserError
from panendofm.runtime.locks import directory_lock
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import keyed, shuffled
from panendofm.vqa.client.run import time_now
from panendofm.vqa.people.config import ExamConfig
from panendofm.vqa.people.local_server import Content, LocalServer, Posted, json_content
from panendofm.vqa.people.readers import ReaderAnswer, ReaderFile, check_code
from panendofm.vqa.reply_kinds import kind_of


@dataclass(frozen=True)
class ShownQuestion:
    """A question as the page gets it: never an answer, a class or a name."""

    id: str
    kind: str
    text: str
    options: list[tuple[str, str]]


@dataclass(frozen=True)
class ExamState:
    """What the page shows next; no questions: all are answered."""

    done: int
    total: int
    locked: bool
    image: str = ""
    number: int = 0
    images: int = 0
    width: int = 0
    height: int = 0
    questions: list[ShownQuestion] | None = None


@dataclass(frozen=True)
class PostedAnswer:
    """What the page sends."""

    id: str
    response: str
    seconds: Seconds = 0.0


@dataclass
class Exam:
    """One reader's way through the images of the human subset, in an order of their own."""

    bench: Bench
    reader: str
    group: str
    file: ReaderFile

    def __post_init__(self) -> None:
        self.items = {item.id: item for item in self.bench.for_people}
        if not self.items:
            raise UserError(
                f"{self.bench.folder}: no question is meant for people; build it with human_questions, or, for "
                "questions about lesions, with lesions.human_per_class."
            )
        # By the image as it is shown: one original may be marked in several ways.
        images = {item.image for item in self.items.values()}
        self.order = sorted(images, key=lambda image: keyed("exam", self.reader, image))
        self.answered = {row.id for row in self.file.rows(self.bench)}

    def questions(self, image: str) -> list[Item]:
        ids = [item.id for item in self.items.values() if item.image == image]
        return [self.items[id_] for id_ in shuffled(ids, "exam order", self.reader)]

    def state(self) -> ExamState:
        done = len(self.answered)
        for number, image in enumerate(self.order, 1):
            questions = self.questions(image)
            missing = [item for item in questions if item.id not in self.answered]
            if missing:
                return ExamState(
                    done,
                    len(self.items),
                    self.file.locked,
                    questions[0].id,
                    number,
                    len(self.order),
                    questions[0].width,
                    questions[0].height,
                    [self._shown(item) for item in missing],
                )
        return ExamState(done, len(self.items), self.file.locked)

    def _shown(self, item: Item) -> ShownQuestion:
        options = list(zip(LETTERS, item.options, strict=False))
        return ShownQuestion(item.id, item.kind, self.bench.question_for_people(item), options)

    def image(self, id_: str) -> Content:
        item = self._item(id_)
        return item.media_type, self.bench.image(item)

    def answer(self, posted: Posted) -> ExamState:
        given = parse_document(PostedAnswer, posted, "the request", "an answer")
        item = self._item(given.id)
        response = given.response.strip()
        if not response:
            raise UserError("the answer is empty.")
        if not kind_of(item).accepts(item, response):
            raise UserError("choose one of the options.")
        seconds = round(given.seconds, 1)
        order = len(self.answered)
        row = ReaderAnswer(item.id, self.reader, self.group, response, seconds, order, self.bench.checksum, time_now())
        self.file.append(row)
        self.answered.add(item.id)
        return self.state()

    def lock(self) -> ExamState:
        missing = len(self.items) - len(self.answered)
        if missing:
            raise UserError(f"{missing} questions are not answered yet.")
        self.file.lock(len(self.items))
        return self.state()

    def _item(self, id_: str) -> Item:
        if id_ not in self.items:
            raise UserError("there is no such question.")
        return self.items[id_]


def serve_exam(bench: Bench, config: ExamConfig) -> None:
    check_code(config.reader, "reader")
    check_code(config.group, "group")
    people = Path(config.people)
    file = ReaderFile(people, config.reader)
    file.open(config.group, bench)
    if file.locked:
        raise UserError(f"{config.reader} has finished this exam; the answers are locked in {file.answers}.")
    with directory_lock(people / f".{config.reader}"):
        exam = Exam(bench, config.reader, config.group, file)
        page = render_page("panendofm.vqa", "exam.html", title="Exam").encode()
        server = LocalServer(
            {
                "/": lambda posted: ("text/html", page),
                "/state": lambda posted: json_content(exam.state()),
                "/image": lambda posted: exam.image(str(posted.get("id", ""))),
            },
            {
                "/answer": lambda posted: json_content(exam.answer(posted)),
                "/lock": lambda posted: json_content(exam.lock()),
            },
            config.port,
        )
        server.serve()
