"""Everything that an atlas can ask, as conversations to train on, apart from what is asked in benches.

An image is left out when it is in a bench or guarded set, when it looks like one there, or when its patient, video or
near-duplicates are in a bench. The certificate counts these, and says what was compared with what.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from panendofm.imaging.leakage import Guard, LeakageConfig, build_guard
from panendofm.records.documents import write_document
from panendofm.runtime.console import say, table, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, write_text
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.build import licenses_of, only_once, prepare_all, render_items, sources_of
from panendofm.vqa.bench.config import InstructConfig
from panendofm.vqa.bench.images.copies import content_thumbnail, guarded_bench, guarded_folder, image_files
from panendofm.vqa.bench.images.sources import SourceImage
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.reply_kinds import CHOICE, kind_of

CONVERSATIONS, CERTIFICATE = "conversations.jsonl", "certificate.json"
EQUAL, ALIKE, GROUP = "equal file", "looks the same", "same patient, video or near-duplicate"


@dataclass(frozen=True)
class Compared:
    """A bench or a guarded folder: by its name and number of images, never by its place."""

    name: str
    images: int
    sha256: str = ""  # of a bench's questions


@dataclass(frozen=True)
class Certificate:
    """What was kept apart, and what is there."""

    questions: int
    images: int
    groups: int
    by_task: dict[str, int]
    by_question_type: dict[str, int]
    by_dataset: dict[str, int]
    published: int  # conversations of the paper
    compared_with: list[Compared]
    removed: dict[str, int]  # images by reason
    removed_sha256: dict[str, list[str]]
    left_out: dict[str, int]  # what could not be asked
    licenses: dict[str, str]
    seed: int
    min_correlation: float = field(default_factory=lambda: LeakageConfig().min_correlation)
    format: Literal[1] = 1


def write_instructions(config: InstructConfig) -> Certificate:
    """Write conversations.jsonl, images/ and certificate.json to `out`."""
    benchmark = find_benchmark(config.benchmark)
    benches = [read_bench(folder, verify=True) for folder in config.bench]
    sources = sources_of(config)
    left_out = sources.left_out
    builder = benchmark.builder(benchmark, config, left_out)
    candidates = builder.candidates(sources.images)
    asked = {candidate.image.sha256: candidate.image for candidate in candidates}
    compared, removed = _removed(sources.images, list(asked.values()), benches, [Path(path) for path in config.guard])
    candidates = [candidate for candidate in candidates if candidate.image.sha256 not in removed]
    facts = prepare_all({c.image.sha256: c.image for c in candidates}, config.images, left_out)
    candidates = builder.usable([c for c in candidates if c.image.sha256 in facts])
    items = only_once(builder.items(candidates, facts), left_out)
    if not items:
        raise UserError("not one question is left; the reasons: " + ", ".join(sorted(left_out)) + ".")
    with atomic_directory(config.out) as folder:
        items = render_items(items, {image.sha256: image for image in sources.images}, facts, folder)
        _refuse_common(items, removed, benches)
        write_text(folder / CONVERSATIONS, "".join(_line(item) for item in items))
        by_reason: dict[str, list[str]] = {reason: [] for reason in (EQUAL, ALIKE, GROUP)}
        for sha256, reason in sorted(removed.items()):
            by_reason[reason].append(sha256)
        certificate = Certificate(
            questions=len(items),
            images=len({item.sha256 for item in items}),
            groups=len({item.group for item in items}),
            by_task=_counts([item.task for item in items]),
            by_question_type=_counts([item.subtask for item in items]),
            by_dataset=_counts([item.dataset for item in items]),
            published=benchmark.published.instructions,
            compared_with=compared,
            removed={reason: len(own) for reason, own in by_reason.items()},
            removed_sha256=by_reason,
            left_out=dict(sorted(left_out.items())),
            licenses=licenses_of(items),
            seed=config.seed,
        )
        write_document(folder / CERTIFICATE, certificate)
    _say(certificate, config)
    return certificate


def _counts(names: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _removed(
    images: Sequence[SourceImage], asked: Sequence[SourceImage], benches: Sequence[Bench], folders: Sequence[Path]
) -> tuple[list[Compared], dict[str, str]]:
    """What was compared, and the images that must stay out, each with the first reason that holds."""
    guarded = [image for bench in benches for image in guarded_bench(bench)]
    compared = [Compared(b.manifest.name, len({item.sha256 for item in b.items}), b.checksum) for b in benches]
    for folder in folders:
        files = image_files(folder)
        guarded += list(track(guarded_folder(files), f"guarding {folder.name}", len(files), "images"))
        compared.append(Compared(folder.name, len(files)))
    known = {image.sha256 for image in guarded}
    # A group is out as soon as one of its images is in a bench or guarded set, or looks like one there.
    removed = {image.sha256: EQUAL for image in asked if image.sha256 in known}
    guard = build_guard(guarded)
    for image in track(asked, "comparing", len(asked), "images"):
        if image.sha256 not in removed and _looks_like_one(image, guard):
            removed[image.sha256] = ALIKE
    named = {item.group for bench in benches for item in bench.items}
    out = {image.group for image in images if image.sha256 in known or image.sha256 in removed} | named
    for image in asked:
        if image.group in out:
            removed.setdefault(image.sha256, GROUP)
    return compared, removed


def _looks_like_one(image: SourceImage, guard: Guard) -> bool:
    thumbnail = content_thumbnail(image.path.read_bytes(), image.source)
    return thumbnail is not None and guard.match(thumbnail, LeakageConfig()) is not None


def _refuse_common(items: Sequence[Item], removed: dict[str, str], benches: Sequence[Bench]) -> None:
    """What the certificate claims, looked at once more in what is written."""
    known = {item.sha256 for bench in benches for item in bench.items} | set(removed)
    groups = {item.group for bench in benches for item in bench.items}
    if any(item.sha256 in known or item.group in groups for item in items):
        raise RuntimeError("an image of a bench is left among the conversations")


def _line(item: Item) -> str:
    """One conversation in LLaVA's form, with what it is about beside it."""
    question = item.question
    answer = kind_of(item).truth(item)
    if item.kind == CHOICE.name:
        lettered = [
            f"{letter}. {option}" for letter, option in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", item.options, strict=False)
        ]
        question = "\n".join([question, *lettered])
        answer = f"{item.answer}. {item.answer_text}"
    values = {
        "id": item.id,
        "image": item.image,
        "conversations": [
            {"from": "human", "value": f"<image>\n{question}"},
            {"from": "gpt", "value": answer},
        ],
        "task": item.task,
        "question_type": item.subtask,
        "dataset": item.dataset,
        "group": item.group,
    }
    return json.dumps(values, ensure_ascii=False) + "\n"


def _say(certificate: Certificate, config: InstructConfig) -> None:
    rows = [[task, str(n)] for task, n in certificate.by_task.items()]
    table("conversations by task", ["task", "n"], [*rows, ["all", str(certificate.questions)]])
    if certificate.published:
        say(f"the paper has {certificate.published:,} in all, from 21 datasets")
    for reason, count in certificate.removed.items():
        say(f"kept apart: {count} images ({reason})")
    say(f"{certificate.questions} conversations about {certificate.images} images → {config.out}")
