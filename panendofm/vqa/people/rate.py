"""Blind rating: an expert sees image, question, reply and reference of one text at a time, and not who wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from panendofm.records.documents import parse_document
from panendofm.reports import render_page
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.locks import directory_lock
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.client.answers import AnswerSet
from panendofm.vqa.people.config import RateConfig
from panendofm.vqa.people.local_server import Content, LocalServer, Posted, json_content
from panendofm.vqa.people.ratings import Rating, RatingFile, Text, texts_to_rate
from panendofm.vqa.people.readers import check_code
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


class BlindRating:
    """One rater's way through the texts, in an order of their own."""

    def __init__(self, bench: Bench, rubric: Rubric, texts: Sequence[Text], rater: str, file: Path) -> None:
        self.bench = bench
        self.rubric = rubric
        self.rater = rater
        self.file = RatingFile(file, rubric)
        self.texts = {text.key: text for text in sorted(texts, key=lambda t: keyed("rate", rater, t.key))}

    def keys(self) -> set[str]:
        return set(self.texts)

    def state(self) -> RatingState:
        done = len(self.file.rated & set(self.texts))
        for key, text in self.texts.items():
            if key not in self.file.rated:
                question = self.bench.question_for_people(text.item)
                reference = text.item.reference
                shown = self.rubric.dimensions
                ends = (self.rubric.low, self.rubric.high)
                return RatingState(done, len(self.texts), key, question, text.reply, reference, shown, *ends)
        return RatingState(done, len(self.texts))

    def image(self, key: str) -> Content:
        if key not in self.texts:
            raise UserError("there is no such text.")
        item = self.texts[key].item
        return item.media_type, self.bench.image(item)

    def rate(self, posted: Posted) -> RatingState:
        given = parse_document(PostedRating, posted, "the request", "a rating")
        key = given.key
        if key not in self.keys() or key in self.file.rated:
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


def serve_rating(bench: Bench, rubric: Rubric, sets: Sequence[AnswerSet], config: RateConfig) -> None:
    check_code(config.rater, "rater")
    ratings = make_directory(config.ratings)
    texts = texts_to_rate(bench, sets, config.human_subset, config.blind)
    with directory_lock(ratings / f".{config.rater}"):
        BlindRating(bench, rubric, texts, config.rater, ratings / f"{config.rater}.jsonl").serve(config.port)
