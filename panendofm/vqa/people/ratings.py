"""Ratings of texts: five dimensions from 1 to 5, by experts or a judge; one line a rated answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_lines
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.client.answers import Answer, AnswerSet
from panendofm.vqa.client.prompts import Variant

DIMENSIONS = ("language", "evidence", "accuracy", "actionability", "safety")
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True)
class Rating:
    answer: str  # key of the rated answer
    rater: str
    values: dict[str, int | None]  # None: the rater could not say
    by_contestant: bool = False  # a judge that rates its own texts too

    @property
    def total(self) -> float | None:
        """The mean of the five, as tables print it."""
        known = [value for value in self.values.values() if value is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class Text:
    """A text to rate; who wrote it is not shown."""

    key: str
    item: Item
    reply: str


def answer_key(model: str, answer: Answer) -> str:
    """16 hex digits for model, question and variant."""
    parts = [model, answer.id, repr(sorted(answer.variant.to_dict().items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def texts_to_rate(bench: Bench, sets: Sequence[AnswerSet], human_only: bool = False, blind: bool = False) -> list[Text]:
    """All free texts of the contestants, without the constant closing line; `blind`: those without the picture too."""
    if not any(item.kind == "text" for item in bench.items):
        raise UserError(f"{bench.folder} asks for no texts to rate; build it with references=FILE.jsonl.")
    found = []
    for one in sets:
        for (id_, variant), answer in one.answers.items():
            item = bench.by_id[id_]
            wanted = variant.plain or (blind and variant == Variant(blind=True, prompt=variant.prompt))
            if item.kind == "text" and wanted and answer.error is None and (item.human or not human_only):
                found.append(Text(answer_key(one.name, answer), item, without_disclaimer(answer.response, bench)))
    return found


def without_disclaimer(reply: str, bench: Bench) -> str:
    """The reply less the closing line that the profile asks for: «End with this line: X» → X."""
    asked = str(bench.manifest.get("disclaimer", ""))
    line = asked.partition(":")[2].strip() or asked.partition("：")[2].strip()
    text = reply.strip()
    if line and text.rstrip(".。 ").endswith(line.rstrip(".。 ")):
        text = text.rstrip(".。 ")
        text = text[: len(text) - len(line.rstrip(".。 "))].rstrip()
    return text


def check_values(values: Any, where: str) -> dict[str, int | None]:
    """Five whole numbers from 1 to 5; a judge without a reference leaves accuracy out."""
    if not isinstance(values, dict):
        raise UserError(f"{where}: a rating is an object with {', '.join(DIMENSIONS)}.")
    result: dict[str, int | None] = {}
    for name in DIMENSIONS:
        value = values.get(name, "missing")
        if value is None:
            result[name] = None
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not LOWEST <= value <= HIGHEST:
            raise UserError(f"{where}: {name} must be a whole number from {LOWEST} to {HIGHEST}, not {value!r}.")
        result[name] = value
    return result


def read_ratings(folder: Path) -> list[Rating]:
    """All ratings of a folder; a rater who rated an answer twice is refused."""
    if not folder.is_dir():
        raise UserError(f"--ratings: {folder} is no folder; rate or judge first, or check the path.")
    found: dict[tuple[str, str], Rating] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(read_json_lines(path), 1):
            where = f"{path}, line {number}"
            if not isinstance(line, dict) or not line.get("answer") or not line.get("rater"):
                raise UserError(f"{where}: a rating needs answer and rater.")
            if line.get("failed"):
                continue
            own = bool(line.get("allow_self"))
            rating = Rating(str(line["answer"]), str(line["rater"]), check_values(line, where), own)
            if (rating.rater, rating.answer) in found:
                raise UserError(f"{where}: {rating.rater} has rated this answer before; remove one line.")
            found[(rating.rater, rating.answer)] = rating
    return list(found.values())
