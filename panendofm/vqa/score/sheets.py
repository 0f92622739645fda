"""What a contestant said: every reply read, by question and variant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.records.documents import as_document
from panendofm.runtime.files import write_text
from panendofm.scoring.answers.choices import Accuracy, Name, accuracies_by
from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import Interval, group_weights, percentile_interval
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import AnswerSet, Variant, cost_of
from panendofm.vqa.people.ratings import answer_key, without_disclaimer
from panendofm.vqa.reply_kinds import NO_ANSWER, Parser, Reading, kind_of

Floats = NDArray[np.float64]


@dataclass
class Sheet:
    """The replies of one contestant to one variant of the questions; what is missing counts as an error."""

    name: str
    kind: str
    variant: Variant = field(default_factory=Variant)
    parser: Parser = field(default_factory=Parser)
    readings: dict[str, Reading] = field(default_factory=dict)  # by question
    ratings: dict[str, float] = field(default_factory=dict)  # of texts, by question
    dimensions: dict[str, dict[str, float]] = field(default_factory=dict)  # the same by dimension of the rubric
    text_keys: dict[str, str] = field(default_factory=dict)  # key of a text → question

    def asked(self, item: Item) -> bool:
        return item.id in self.readings

    def reading(self, item: Item) -> Reading:
        return self.readings.get(item.id, NO_ANSWER)

    def value(self, item: Item) -> float | None:
        """What the reply is worth: right or wrong, overlap, mean rating; None: a text that nobody rated."""
        return self.ratings.get(item.id) if kind_of(item).rated else self.reading(item).value

    def values(self, items: Sequence[Item]) -> Floats:
        """[N], of questions that all have a value."""
        return np.array([self.value(item) for item in items], np.float64)

    def chosen(self, item: Item) -> str | None:
        """The text of the option that was chosen."""
        letter = self.reading(item).chosen
        return None if letter is None else item.options[LETTERS.index(letter)]


@dataclass(frozen=True)
class Contestant:
    """Somebody who takes part: a model, or a reader of a group of people."""

    answers: AnswerSet
    sheets: dict[Variant, Sheet]
    group: str = ""

    @property
    def name(self) -> str:
        return self.answers.name

    @property
    def kind(self) -> str:
        return self.answers.run.kind

    @property
    def plain(self) -> Sheet:
        return self.sheets[Variant(prompt=self.answers.prompt)]

    @property
    def blind(self) -> Sheet | None:
        return self.variant(blind=True)

    @property
    def repeats(self) -> list[Sheet]:
        """The sheets of repeated runs, without the first."""
        numbers = sorted({variant.repeat for variant in self.sheets} - {0})
        return [sheet for number in numbers if (sheet := self.variant(repeat=number)) is not None]

    def variant(
        self, rotation: int = 0, blind: bool = False, perturb: str | None = None, repeat: int = 0
    ) -> Sheet | None:
        return self.sheets.get(Variant(rotation, blind, self.answers.prompt, perturb, repeat))

    @property
    def perturbations(self) -> list[str]:
        return sorted({variant.perturb for variant in self.sheets if variant.perturb})


def read_contestant(bench: Bench, answers: AnswerSet, mode: str, group: str = "") -> Contestant:
    """Read all replies."""
    parser = Parser(mode, answers.run.box_convention)
    plain = Variant(prompt=answers.prompt)
    sheets = {plain: Sheet(answers.name, answers.run.kind, plain, parser)}
    for (id_, variant), answer in answers.answers.items():
        item = bench.by_id[id_]
        sheet = sheets.setdefault(variant, Sheet(answers.name, answers.run.kind, variant, parser))
        sheet.readings[id_] = kind_of(item).read(item, answer, parser)
        if kind_of(item).rated:
            sheet.text_keys[answer_key(answers.author, answer)] = id_
    return Contestant(answers, sheets, group)


# ------------------------------------------------------------------------------------------ questions that are scored


@dataclass(frozen=True)
class QuestionSet:
    """Questions and their bootstrap replicates, which all contestants share: so differences are paired."""

    items: list[Item]
    bootstrap: BootstrapConfig = field(default_factory=lambda: BootstrapConfig(replicates=0))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        return np.unique([item.group for item in self.items], return_inverse=True)[1].astype(np.int64)

    @cached_property
    def weights(self) -> Floats:
        """How often each question is drawn [R, N], in whole groups."""
        return group_weights(self.groups, self.bootstrap.replicates, self.bootstrap.seed)

    @cached_property
    def n_options(self) -> NDArray[np.int64]:
        return np.array([len(item.options) for item in self.items], np.int64)

    @property
    def single_groups(self) -> bool:
        return len(np.unique(self.groups)) == len(self.groups)

    def interval(self, replicates: Floats) -> Interval | None:
        return percentile_interval(replicates, self.bootstrap.confidence)

    def accuracies(self, right: Floats, parts: dict[Name, NDArray[np.bool_]]) -> dict[Name, Accuracy]:
        """Of multiple-choice questions [N], part by part."""
        return accuracies_by(right, self.n_options, parts, self.weights, self.bootstrap.confidence)

    def kept(self, where: NDArray[np.bool_]) -> list[Item]:
        return [item for item, use in zip(self.items, where, strict=True) if use]


# ------------------------------------------------------------------------------------------ files and costs


@dataclass(frozen=True)
class Accounting:
    """Tokens, money and time of a run."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    cost_per_1000: float | None
    median_latency_s: float | None
    retried: int


def accounting(answers: AnswerSet) -> Accounting:
    good = [answer for answer in answers.answers.values() if answer.error is None]
    cost = cost_of(good, answers.run.prices_per_million)
    latencies = [answer.latency_s for answer in good]
    return Accounting(
        requests=len(good),
        prompt_tokens=sum(answer.usage.get("prompt_tokens", 0) for answer in good),
        completion_tokens=sum(answer.usage.get("completion_tokens", 0) for answer in good),
        cost=cost,
        cost_per_1000=None if cost is None or not good else cost / len(good) * 1000,
        median_latency_s=float(np.median(latencies)) if latencies else None,
        retried=sum(answer.attempts > 1 for answer in good),
    )


def write_parsed(out: Path, bench: Bench, contestants: Sequence[Contestant]) -> None:
    """parsed.jsonl: what was made of each reply, and what it is worth."""
    lines = []
    for sheet in (sheet for contestant in contestants for sheet in contestant.sheets.values()):
        for item in bench.items:
            if sheet.asked(item):
                reading = sheet.reading(item)
                said = without_disclaimer(reading.text, bench)
                own = as_document(replace(reading, value=sheet.value(item), text=said))
                place = {"id": item.id, "model": sheet.name, "variant": vars(sheet.variant), "task": item.task}
                lines.append(json.dumps({**place, **own}, ensure_ascii=False) + "\n")
    write_text(out / "parsed.jsonl", "".join(lines))
