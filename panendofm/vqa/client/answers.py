"""answers.jsonl: one line a request, appended as replies come. Scoring reads nothing but this and the bench."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_lines, read_json_object
from panendofm.vqa.bench.items import Bench
from panendofm.vqa.client.prompts import Variant

ANSWERS, RUN = "answers.jsonl", "run.json"


@dataclass(frozen=True)
class Answer:
    id: str
    variant: Variant
    model: str
    response: str
    finish_reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    latency_s: float = 0.0
    attempts: int = 1
    error: str | None = None
    request_sha256: str = ""
    time: str = ""
    format_retries: int = 0  # how often it was asked again because the reply could not be read

    def to_line(self) -> str:
        values = {**self.__dict__, "variant": self.variant.to_dict()}
        return json.dumps(values, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str) -> Answer:
        try:
            known = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
            return cls(**{**known, "variant": Variant.from_dict(values.get("variant") or {})})
        except TypeError as error:
            raise UserError(f"{where}: an answer needs id, model and response; correct or remove the line.") from error


def read_answers(path: Path) -> list[Answer]:
    """All whole lines of the file, failed requests included."""
    if not path.is_file():
        return []
    lines = read_json_lines(path)
    return [Answer.from_dict(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def cut_torn_line(path: Path) -> None:
    """Take away what a kill left of a last line."""
    if not path.is_file():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as stream:
            stream.truncate(whole)


@dataclass(frozen=True)
class AnswerSet:
    """The answers of one run that were checked against their bench: one for each question and variant."""

    name: str
    folder: Path
    run: dict[str, Any]
    answers: dict[tuple[str, Variant], Answer]


def read_answer_set(folder: Path, bench: Bench, allow_partial: bool = False) -> AnswerSet:
    """Read a folder of answers, or a file alone; refuse what does not belong to the bench."""
    path = folder / ANSWERS if folder.is_dir() else folder
    if not path.is_file():
        raise UserError(f"{folder}: there is no {ANSWERS}; ask first, or check the path.")
    run = read_json_object(path.parent / RUN) if (path.parent / RUN).is_file() else {}
    if run and run.get("bench_sha256") != bench.checksum:
        raise UserError(f"{path} answers another bench, or another version of it, than {bench.folder}; ask again.")
    found: dict[tuple[str, Variant], Answer] = {}
    for answer in read_answers(path):
        if answer.id not in bench.by_id:
            raise UserError(f"{path}: the bench has no question {answer.id}; these are answers to another one.")
        key = (answer.id, answer.variant)
        known = found.get(key)
        if known is not None and known.error is None and answer.error is None:
            raise UserError(f"{path}: question {answer.id} has two answers for one variant; remove one line.")
        if known is None or known.error is not None:
            found[key] = answer
    if not found:
        raise UserError(f"{path}: it holds no answer.")
    prompts = {variant.prompt for _, variant in found}
    plain = {item_id for item_id, variant in found if variant.plain}
    # An encoder writes no texts: their columns stay empty.
    asked = [item for item in bench.items if item.kind != "text" or run.get("kind") != "encoder"]
    if not allow_partial and len(plain) < len(asked):
        raise UserError(
            f"{path} answers {len(plain)} of {len(asked)} questions; finish the run, "
            "or score what is there with --allow-partial."
        )
    if len(prompts) > 1:
        raise UserError(f"{path}: it mixes the prompts {', '.join(sorted(prompts))}; keep one run a folder.")
    name = run.get("name") or next(iter(found.values())).model
    return AnswerSet(str(name), folder, run, found)


def cost_of(answers: Sequence[Answer], price_input: float | None, price_output: float | None) -> float | None:
    """What the tokens cost, at prices per million; None without prices."""
    if price_input is None or price_output is None:
        return None
    tokens = [(a.usage.get("prompt_tokens", 0), a.usage.get("completion_tokens", 0)) for a in answers]
    return sum(p * price_input + c * price_output for p, c in tokens) / 1_000_000
