"""Blind rating: an expert sees image, question, reply and reference of one text at a time, and not who wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from panendofm.records.documents import parse_document
from panendofm.reports import render_page
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.locks import directory_lock
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.people.config import RateConfig, RateReportsConfig
from panendofm.vqa.people.local_server import Content, LocalServer, Posted, json_content
from panendofm.vqa.people.ratings import Rating, RatingFile, Text
from panendofm.vqa.people.rubric import Dimension, Rubric

_LONGEST_NOTE = 1000


@dataclass(frozen=True)
class RatingState:
    """What the page shows next; no key: all texts are rated."""

    done: int
    total: int
    key: str = ""
    question: str = ""
    reply: str = ""
    reference: str = ""
    rubric: tuple[Dimension, ...] = ()
    low: int = 1
    high: int = 5
    has_image: bool = True


@dataclass(frozen=True)
class PostedRating:
    """What the page sends, beside a value for each dimension."""

    key: str
    note: str = ""


@dataclass(frozen=True)
class ShownText:
    """A text as the page gets it: never who wrote it."""

    key: str
    question: str
    reply: str
    reference: str = ""
    image: Callable[[], Content] | None = None


def shown_texts(bench: Bench, texts: Sequence[Text]) -> list[ShownText]:
    """Texts about images of a bench."""
    return [
        ShownText(
            text.key,
            bench.question_for_people(text.item),
            text.reply,
            text.item.reference,
            partial(_image_of, bench, text.item),
        )
        for text in texts
    ]


def _image_of(bench: Bench, item: Item) -> Content:
    return item.media_type, bench.image(item)


class BlindRating:
    """One rater's way through the texts, in an order of their own."""

    def __init__(self, texts: Sequence[ShownText], rubric: Rubric, rater: str, file: Path) -> None:
        self.rubric = rubric
        self.rater = rater
        self.file = RatingFile(file, rubric)
        self.texts = {text.key: text for text in sorted(texts, key=lambda t: keyed("rate", rater, t.key))}

    def state(self) -> RatingState:
        done = len(self.file.rated & set(self.texts))
        for key, text in self.texts.items():
            if key not in self.file.rated:
                return RatingState(
                    done,
                    len(self.texts),
                    key,
                    text.question,
                    text.reply,
                    text.reference,
                    self.rubric.dimensions,
                    self.rubric.low,
                    self.rubric.high,
                    text.image is not None,
                )
        return RatingState(done, len(self.texts))

    def image(self, key: str) -> Content:
        text = self.texts.get(key)
        if text is None or text.image is None:
            raise UserError("there is no such text, or it has no image.")
        return text.image()

    def rate(self, posted: Posted) -> RatingState:
        given = parse_document(PostedRating, posted, "the request", "a rating")
        key = given.key
        if key not in self.texts or key in self.file.rated:
            raise UserError("this text is not to be rated, or was rated before.")
        missing = [name for name in self.rubric.names if posted.get(name) is None]
        if missing:
            raise UserError(f"the rating lacks {', '.join(missing)}.")
        values = self.rubric.check(posted, "the rating")
        self.file.append(Rating(key, self.rater, values, note=given.note[:_LONGEST_NOTE]))
        return self.state()

    def serve(self, port: int) -> None:
        page = render_page("panendofm.vqa", "rate.html", title="Rating").encode()
        LocalServer(
            {
                "/": lambda posted: ("text/html", page),
                "/state": lambda posted: json_content(self.state()),
                "/image": lambda posted: self.image(str(posted.get("key", ""))),
            },
            {"/rate": lambda posted: json_content(self.rate(posted))},
            port,
        ).serve()


def serve_rating(texts: Sequence[ShownText], rubric: Rubric, config: RateConfig | RateReportsConfig) -> None:
    """The rating page of one rater, until the command is ended."""
    ratings = make_directory(config.ratings)
    with directory_lock(ratings / f".{config.rater}"):
        BlindRating(texts, rubric, config.rater, ratings / f"{config.rater}.jsonl").serve(config.port)
