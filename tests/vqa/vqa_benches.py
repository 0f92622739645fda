"""The benches that the tests use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tiny_llava import COLORS, QUESTION, disc

from panendofm.runtime.config import load_config
from panendofm.runtime.files import sha256_of
from panendofm.vqa.bench.bench_folder import Bench, Manifest, read_bench, write_bench
from panendofm.vqa.bench.config import BuildConfig
from panendofm.vqa.bench.items import Item, question_id

CAP = 8


def build_settings(atlas: Path, corpus: Path, out: Path, *more: str) -> BuildConfig:
    words = [f"data={atlas}", f"regions={corpus / 'regions.jsonl'}", f"out={out}", f"cap={CAP}", *more]
    return load_config(BuildConfig, None, words)


def disc_bench(folder: Path, per_color: int = 4) -> Bench:
    """Discs of four colors; the options always stand in the order that the tiny model was trained on."""
    random = np.random.default_rng(7)
    items = []
    (folder / "images").mkdir(parents=True)
    for number in range(4 * per_color):
        color = list(COLORS)[number % 4]
        name = f"images/disc{number:02d}.png"
        disc(color, random).save(folder / name)
        digest = sha256_of(folder / name)
        items.append(
            Item(
                id=question_id(digest),
                task="LI",
                subtask="LI",
                category="anatomy",
                scene="GS",
                prompt_kind="image",
                kind="choice",
                sha256=digest,
                group=f"g{number}",
                image=name,
                width=64,
                height=64,
                question=QUESTION,
                options=tuple(COLORS),
                answer="ABCD"[number % 4],
                entity=color,
                benchmark="discs",
                dataset="discs",
                question_original=QUESTION,
            )
        )
    write_bench(folder, items, Manifest("discs"))
    return read_bench(folder)


def write_text_bench(folder: Path, classes: int = 4, codes: tuple[str, ...] = ("Q4",)) -> Bench:
    """One image a class and a text asked about each; people answer all."""
    random = np.random.default_rng(11)
    (folder / "images").mkdir(parents=True)
    items = []
    for number in range(classes):
        name = f"images/text{number:02d}.png"
        disc(list(COLORS)[number % 4], random).save(folder / name)
        digest = sha256_of(folder / name)
        for code in codes:
            items.append(
                Item(
                    id=question_id(digest, code, str(number)),
                    task=code,
                    subtask=code,
                    category="lesion",
                    scene="colorectum",
                    prompt_kind="image",
                    kind="text",
                    sha256=digest,
                    group=f"g{number}",
                    image=name,
                    width=64,
                    height=64,
                    question="What is seen?",
                    entity=f"class {number}",
                    benchmark="texts",
                    dataset="discs",
                    reference="A disc.",
                    human=True,
                )
            )
    write_bench(folder, items, Manifest("texts", "gi_bench"))
    return read_bench(folder)
