"""answers.jsonl, one line a request, appended as replies come; and run.json, which says what was asked of whom.

Scoring reads nothing but these and the bench.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from panendofm.records.documents import Count, Seconds, parse_document, read_document, write_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json_lines, write_text
from panendofm.vqa.bench.bench_folder import Bench

ANSWERS, RUN, EXTRACTED = "answers.jsonl", "run.json", "extracted.jsonl"
ENCODER, PEOPLE, MADE_UP = "encoder", "people", "made up"
TOKEN_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, order=True)
class Variant:
    """How a question is asked."""

    rotation: Count = 0
    blind: bool = False
    prompt: str = "direct"
    perturb: str | None = None
    repeat: Count = 0

    @property
    def plain(self) -> bool:
        """Whether it is the question as the bench states it."""
        return not (self.rotation or self.blind or self.perturb or self.repeat)


@dataclass(frozen=True)
class Answer:
    id: str
    variant: Variant
    model: str
    response: str
    finish_reason: str | None = None
    usage: dict[str, Count] = field(default_factory=dict)
    latency_s: Seconds = 0.0
    attempts: Count = 1
    error: str | None = None
    request_sha256: str = ""
    time: str = ""
    format_retries: Count = 0  # how often it was asked again because the reply could not be read
    log_probabilities: list[float] = field(default_factory=list)  # of the options as shown, in likelihood mode

    def to_line(self) -> str:
        values = {**vars(self), "variant": vars(self.variant)}
        return json.dumps(values, ensure_ascii=False) + "\n"


def read_answers(path: Path) -> list[Answer]:
    """All whole lines of the file, failed requests included; other programs may have written it."""
    if not path.is_file():
        return []
    return [_answer(line, f"{path}, line {number}") for number, line in enumerate(read_json_lines(path), 1)]


def _answer(line: dict[str, Any], where: str) -> Answer:
    """Other programs leave fields out or empty, and count more kinds of tokens than we do."""
    known = {"variant": {}, **{name: value for name, value in line.items() if value is not None}}
    if line.get("error") is not None:
        known.setdefault("response", "")
    usage = known.get("usage")
    if isinstance(usage, dict):
        known["usage"] = {name: usage[name] for name in TOKEN_COUNTS if usage.get(name) is not None}
    return parse_document(Answer, known, where, "an answer with id, model and response; correct or remove the line")


def cut_torn_line(path: Path) -> None:
    """Take away what a kill left of a last line."""
    if not path.is_file():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as stream:
            stream.truncate(whole)


# ------------------------------------------------------------------------------------------ what a run was


@dataclass(frozen=True)
class Decoding:
    temperature: float | None = None
    token_key: str = "max_tokens"
    max_tokens: int | None = None


@dataclass(frozen=True)
class Prices:
    """Of a million tokens."""

    input: float | None = None
    output: float | None = None


@dataclass(frozen=True)
class Run:
    """What decides the replies, and nothing secret. Files of other programs may leave out all but the checksum."""

    bench_sha256: str = ""
    name: str = ""
    kind: str = "model"
    bench: str = ""
    endpoint: str = ""
    model: str = ""
    model_answered: list[str] = field(default_factory=list)  # ids that the server answered with
    decoding: Decoding | None = None
    prompt: str = "direct"
    prompt_version: int = 0
    format_retries: int = 0
    likelihood: str = "none"
    system: str = ""
    box_convention: str = "pixel"
    prices_per_million: Prices = Prices()
    versions: dict[str, str] = field(default_factory=dict)
    weights_sha256: str = ""  # of an encoder, and how it learned
    head: str = ""
    trained_on: dict[str, int] = field(default_factory=dict)


def read_run(folder: Path) -> Run | None:
    """None where a folder holds answers alone."""
    path = folder / RUN
    return read_document(Run, path, "the description of a run") if path.is_file() else None


def write_run(folder: Path, run: Run) -> None:
    write_document(folder / RUN, run)


def write_answers(folder: Path, run: Run, answers: Sequence[Answer]) -> None:
    """The answers of a contestant that needs no asking, at once."""
    make_directory(folder)
    write_text(folder / ANSWERS, "".join(answer.to_line() for answer in answers))
    write_run(folder, run)


@dataclass(frozen=True)
class ExtractedLine:
    """What a model made of one reply that the strict parser could not read; no letter: nothing."""

    id: str
    by: str
    letter: str | None = None
    reply: str = ""


@dataclass(frozen=True)
class Extracted:
    """The letters that a model read, by question."""

    by: str = ""
    letters: dict[str, str | None] = field(default_factory=dict)


def read_extracted(folder: Path, bench: Bench) -> Extracted:
    """Nothing where no extraction was made."""
    path = folder / EXTRACTED
    if not path.is_file():
        return Extracted()
    letters: dict[str, str | None] = {}
    by = ""
    for number, line in enumerate(read_json_lines(path), 1):
        where = f"{path}, line {number}"
        own = parse_document(ExtractedLine, line, where, "an extracted answer")
        if own.id not in bench.by_id or (by and own.by != by):
            raise UserError(f"{where}: it belongs to another bench or model; remove {path.name} and extract anew.")
        by = own.by
        letters[own.id] = own.letter
    return Extracted(by, letters)


@dataclass(frozen=True)
class AnswerSet:
    """The answers of one run that were checked against their bench: one for each question and variant."""

    name: str
    folder: Path
    run: Run
    answers: dict[tuple[str, Variant], Answer]
    model: str = ""  # whose texts these are, where `name` tells several runs apart
    extracted: Extracted = field(default_factory=lambda: Extracted())

    @property
    def author(self) -> str:
        return self.model or self.name

    @property
    def prompt(self) -> str:
        """The one prompt that all were asked with."""
        return next(iter(self.answers))[1].prompt


def read_answer_set(folder: Path, bench: Bench, allow_partial: bool = False) -> AnswerSet:
    """Read a folder of answers, or a file alone; refuse what does not belong to the bench."""
    path = folder / ANSWERS if folder.is_dir() else folder
    if not path.is_file():
        raise UserError(f"{folder}: there is no {ANSWERS}; ask first, or check the path.")
    run = read_run(path.parent)
    if run is not None and run.bench_sha256 != bench.checksum:
        raise UserError(f"{path} answers another bench, or another version of it, than {bench.folder}; ask again.")
    run = run or Run()
    found = _by_question(path, bench)
    if not found:
        raise UserError(f"{path}: it holds no answer.")
    plain = {item_id for item_id, variant in found if variant.plain}
    # An encoder writes no texts: their columns stay empty.
    asked = [item for item in bench.items if item.kind != "text" or run.kind != ENCODER]
    if not allow_partial and len(plain) < len(asked):
        raise UserError(
            f"{path} answers {len(plain)} of {len(asked)} questions; finish the run, "
            "or score what is there with allow_partial=true."
        )
    prompts = {variant.prompt for _, variant in found}
    if len(prompts) > 1:
        raise UserError(f"{path}: it mixes the prompts {', '.join(sorted(prompts))}; keep one run a folder.")
    extracted = read_extracted(path.parent, bench)
    return AnswerSet(run.name or next(iter(found.values())).model, folder, run, found, extracted=extracted)


def _by_question(path: Path, bench: Bench) -> dict[tuple[str, Variant], Answer]:
    found: dict[tuple[str, Variant], Answer] = {}
    for answer in read_answers(path):
        if answer.id not in bench.by_id:
            raise UserError(f"{path}: the bench has no question {answer.id}; these are answers to another one.")
        if answer.variant.rotation >= max(1, len(bench.by_id[answer.id].options)):
            raise UserError(f"{path}: question {answer.id} has no rotation {answer.variant.rotation}; remove the line.")
        key = (answer.id, answer.variant)
        known = found.get(key)
        if known is not None and known.error is None and answer.error is None:
            raise UserError(f"{path}: question {answer.id} has two answers for one variant; remove one line.")
        if known is None or known.error is not None:
            found[key] = answer
    return found


def unique_names(sets: Sequence[AnswerSet]) -> list[AnswerSet]:
    """Runs of one model are told apart by their prompts, else by their folders."""
    names = [one.name for one in sets]
    prompts = [(one.name, one.prompt) for one in sets]
    found = []
    for one in sets:
        if names.count(one.name) > 1:
            told_by = one.prompt if prompts.count((one.name, one.prompt)) == 1 else one.folder.name
            one = replace(one, name=f"{one.name} [{told_by}]", model=one.name)
        found.append(one)
    return found


def cost_of(answers: Sequence[Answer], prices: Prices) -> float | None:
    """What the tokens cost; None without prices."""
    if prices.input is None or prices.output is None:
        return None
    total = 0.0
    for answer in answers:
        total += answer.usage.get("prompt_tokens", 0) * prices.input
        total += answer.usage.get("completion_tokens", 0) * prices.output
    return total / 1_000_000
