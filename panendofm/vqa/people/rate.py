"""Blind rating: an expert sees picture, question, reply and reference of one text at a time, and not who wrote it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import make_directory, read_json_lines
from panendofm.runtime.locks import directory_lock
from panendofm.vqa.bench.items import Bench
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml
from panendofm.vqa.client.answers import AnswerSet, cut_torn_line
from panendofm.vqa.people.local_server import Content, LocalServer, json_content
from panendofm.vqa.people.ratings import DIMENSIONS, Text, check_values, texts_to_rate
from panendofm.vqa.people.readers import check_code
from panendofm.vqa.people.wording import question_for_people


class Rating:
    """One rater's way through the texts, in an order of their own."""

    def __init__(self, bench: Bench, texts: Sequence[Text], rater: str, file: Path) -> None:
        self.bench, self.rater, self.file = bench, rater, file
        self.texts = {text.key: text for text in sorted(texts, key=lambda t: keyed("rate", rater, t.key))}
        self.done = {line["answer"] for line in read_json_lines(file)} if file.is_file() else set()

    def state(self) -> dict[str, Any]:
        progress = {"done": len(self.done & set(self.texts)), "total": len(self.texts)}
        for key, text in self.texts.items():
            if key not in self.done:
                question = question_for_people(self.bench, text.item)
                shown = {"question": question, "reply": text.reply, "reference": text.item.reference}
                return {**progress, "key": key, **shown, "rubric": _rubric()}
        return progress

    def picture(self, key: str) -> Content:
        if key not in self.texts:
            raise UserError("there is no such text.")
        item = self.texts[key].item
        return ("image/png" if item.image.endswith(".png") else "image/jpeg"), self.bench.picture(item)

    def rate(self, values: dict[str, Any]) -> dict[str, Any]:
        key = str(values.get("key", ""))
        if key not in self.texts or key in self.done:
            raise UserError("this text is not to be rated, or was rated before.")
        missing = [name for name in DIMENSIONS if values.get(name) is None]
        if missing:
            raise UserError(f"the rating lacks {', '.join(missing)}.")
        ratings = check_values(values, "the rating")
        row = {"answer": key, "rater": self.rater, **ratings, "note": str(values.get("note", ""))[:1000]}
        with naming_path("write", self.file), self.file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.done.add(key)
        return self.state()


def _rubric() -> list[dict[str, Any]]:
    dimensions = read_package_yaml("judge", "rubric.yaml")["dimensions"]
    return [{"name": n, "title": d["title"], "anchors": [d[1], d[3], d[5]]} for n, d in dimensions.items()]


def serve_rating(
    bench: Bench,
    sets: Sequence[AnswerSet],
    ratings: Path,
    rater: str,
    port: int = 0,
    human_only: bool = False,
    blind: bool = False,
) -> None:
    check_code(rater, "rater")
    make_directory(ratings)
    file = ratings / f"{rater}.jsonl"
    cut_torn_line(file)
    texts = texts_to_rate(bench, sets, human_only, blind)
    if not texts:
        raise UserError("these answers hold no free text to rate.")
    with directory_lock(ratings / f".{rater}"):
        rating = Rating(bench, texts, rater, file)
        page = (
            resources.files("panendofm.vqa.people").joinpath("pages", "rate.html").read_text(encoding="utf-8").encode()
        )
        LocalServer(
            {
                "/": lambda values: ("text/html", page),
                "/state": lambda values: json_content(rating.state()),
                "/picture": lambda values: rating.picture(str(values.get("key", ""))),
            },
            {"/rate": lambda values: json_content(rating.rate(values))},
            port,
        ).serve()
