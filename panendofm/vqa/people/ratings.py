"""Ratings of texts, by experts or a judge: one line a rated answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import append_json_line, read_json_lines
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import Answer, AnswerSet, Variant, cut_torn_line
from panendofm.vqa.people.rubric import Rubric, Values


@dataclass(frozen=True)
class Rating:
    answer: str  # key of the rated answer
    rater: str
    values: Values
    by_contestant: bool = False  # a judge that rates its own texts too
    note: str = ""
    failed: str = ""  # why a judge gave no rating
    prompt_sha256: str = ""
    usage: dict[str, int] = field(default_factory=dict)
    characters: int = 0  # of the text

    @property
    def total(self) -> float | None:
        """The mean of the dimensions, as tables print it."""
        known = [value for value in self.values.values() if value is not None]
        return sum(known) / len(known) if known else None

    def line(self) -> dict[str, object]:
        """As it is stored: the dimensions beside the other fields."""
        values: dict[str, object] = {**vars(self), **self.values}
        del values["values"]
        return values


class RatingFile:
    """The ratings of one rater, appended as they come."""

    def __init__(self, path: Path, rubric: Rubric) -> None:
        cut_torn_line(path)
        self.path = path
        known = _read_file(path, rubric) if path.is_file() else []
        self.rated = {rating.answer for rating in known if not rating.failed}

    def append(self, rating: Rating) -> None:
        append_json_line(self.path, rating.line())
        if not rating.failed:
            self.rated.add(rating.answer)


def read_ratings(folder: Path, rubric: Rubric) -> list[Rating]:
    """All ratings of a folder; a rater who rated an answer twice is refused."""
    if not folder.is_dir():
        raise UserError(f"ratings: {folder} is no folder; rate or judge first, or check the path.")
    found: dict[tuple[str, str], Rating] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for number, rating in enumerate(_read_file(path, rubric), 1):
            if rating.failed:
                continue
            if (rating.rater, rating.answer) in found:
                raise UserError(f"{path}, line {number}: {rating.rater} has rated this answer before; remove one line.")
            found[(rating.rater, rating.answer)] = rating
    return list(found.values())


def _read_file(path: Path, rubric: Rubric) -> list[Rating]:
    """Only what scoring needs: other programs may have written the file."""
    found = []
    for number, line in enumerate(read_json_lines(path), 1):
        where = f"{path}, line {number}"
        if not line.get("answer") or not line.get("rater"):
            raise UserError(f"{where}: a rating needs answer and rater.")
        failed = str(line.get("failed") or "")
        values = {} if failed else rubric.check(line, where)
        own = bool(line.get("by_contestant") or line.get("allow_self"))
        found.append(Rating(str(line["answer"]), str(line["rater"]), values, own, failed=failed))
    return found


# ------------------------------------------------------------------------------------------ what is rated


@dataclass(frozen=True)
class Text:
    """A text to rate; who wrote it is not shown."""

    key: str
    item: Item
    reply: str


def answer_key(model: str, answer: Answer) -> str:
    """16 hex digits for model, question and variant."""
    parts = [model, answer.id, repr(sorted(vars(answer.variant).items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def texts_to_rate(bench: Bench, sets: Sequence[AnswerSet], human_only: bool = False, blind: bool = False) -> list[Text]:
    """All free texts of the contestants, without the constant closing line; `blind`: those without the image too."""
    if not any(item.kind == "text" for item in bench.items):
        raise UserError(f"{bench.folder} asks for no texts to rate; build it with references=FILE.jsonl.")
    found = []
    for one in sets:
        for (id_, variant), answer in one.answers.items():
            item = bench.by_id[id_]
            wanted = variant.plain or (blind and variant == Variant(blind=True, prompt=variant.prompt))
            if item.kind == "text" and wanted and answer.error is None and (item.human or not human_only):
                found.append(Text(answer_key(one.name, answer), item, without_disclaimer(answer.response, bench)))
    if not found:
        raise UserError("these answers hold no free text to rate.")
    return found


def without_disclaimer(reply: str, bench: Bench) -> str:
    """The reply less the closing line that is asked for: «End with this line: X» → X."""
    asked = bench.manifest.disclaimer
    line = asked.partition(":")[2].strip() or asked.partition("：")[2].strip()
    text = reply.strip()
    if line and text.rstrip(".。 ").endswith(line.rstrip(".。 ")):
        text = text.rstrip(".。 ")
        text = text[: len(text) - len(line.rstrip(".。 "))].rstrip()
    return text
