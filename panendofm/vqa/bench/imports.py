"""A bench from a TSV in the style of EndoBench and VLMEvalKit: index, image (base64), question, A, B, …, answer.

Other columns are kept. Which of them hold task, category, scene and so on may be said by `columns.task=…`; where a file
names no groups, images that look alike are one.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from panendofm.imaging.frame_filters.clean import field_of_view_hash
from panendofm.imaging.groups import near_duplicate_groups
from panendofm.imaging.images import UnreadableImageError, decode_image
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import DEFAULT_BENCHMARK, IMAGES, Manifest, write_bench
from panendofm.vqa.bench.config import ImportConfig
from panendofm.vqa.bench.items import Item, question_id
from panendofm.vqa.bench.questions.for_people import mark_for_people
from panendofm.vqa.benchmark import QuestionType, find_benchmark

_NEAR_DUPLICATE_BITS = 48


def import_tsv(path: Path, config: ImportConfig) -> None:
    rows = _read(path)
    images = _images(rows, path)
    letters = [letter for letter in LETTERS if letter in rows[0]]
    groups = _groups(rows, images, config.columns.group)
    items: dict[str, Item] = {}
    with atomic_directory(config.out) as folder:
        (folder / IMAGES).mkdir()
        for number, (row, group) in enumerate(zip(rows, groups, strict=True), 2):
            content = images[row["index"]]
            item = _item(row, content, letters, group, config, f"{path}, line {number}")
            if item.id in items:
                raise UserError(f"{path}, line {number}: the question {item.id} stands there twice; remove one line.")
            (folder / item.image).write_bytes(content)
            items[item.id] = item
        name = config.name or path.stem
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        chosen = list(items.values())
        if config.human_questions:
            chosen = mark_for_people(chosen, config.human_questions, config.human_most_per_type, config.seed)
        write_bench(folder, chosen, Manifest(name, imported_from=digest))
    people = sum(item.human for item in chosen)
    say(f"{len(items)} questions from {path}{f', {people} for people' if people else ''} → {config.out}")


def _read(path: Path) -> list[dict[str, str]]:
    usual = csv.field_size_limit(sys.maxsize)  # images are fields
    try:
        rows = read_csv(path, ("index", "image", "question", "A", "B", "answer"), delimiter="\t")
    finally:
        csv.field_size_limit(usual)
    if not rows:
        raise UserError(f"{path}: it holds no question.")
    return rows


def _images(rows: list[dict[str, str]], path: Path) -> dict[str, bytes]:
    """The image of each index; instead of an image a row may name the index of another one."""
    by_index = {row["index"]: row["image"] for row in rows}
    if len(by_index) < len(rows):
        raise UserError(f"{path}: an index stands there twice; every question needs its own.")
    found = {}
    for number, row in enumerate(rows, 2):
        text = row["image"]
        if text in by_index:
            text = by_index[text]
        try:
            bare = text.partition(",")[2] if text.startswith("data:") else text
            found[row["index"]] = base64.b64decode(bare, validate=True)
            decode_image(found[row["index"]], f"of line {number}")
        except (binascii.Error, ValueError, UnreadableImageError) as error:
            raise UserError(f"{path}, line {number}: 'image' is no image in base64; correct it.") from error
    return found


def _groups(rows: list[dict[str, str]], images: dict[str, bytes], column: str) -> list[str]:
    if column and all(row.get(column) for row in rows):
        return [row[column] for row in rows]
    hashes = np.stack([field_of_view_hash(decode_image(images[row["index"]], "")) for row in rows])
    return [f"g{number}" for number in near_duplicate_groups(hashes, _NEAR_DUPLICATE_BITS)]


def _item(
    row: dict[str, str], content: bytes, letters: list[str], group: str, config: ImportConfig, where: str
) -> Item:
    options = [row[letter] for letter in letters]
    while options and not options[-1]:
        options.pop()
    answer = row["answer"].strip().upper()
    if len(options) < 2 or not all(options) or answer not in LETTERS[: len(options)] or not answer:
        raise UserError(f"{where}: a question needs two or more options without gaps, and the letter of one as answer.")
    columns = config.columns

    def value(name: str) -> str:
        column = getattr(columns, name)
        return row.get(column, "") if column else ""

    digest = hashlib.sha256(content).hexdigest()
    kind = "png" if content.startswith(b"\x89PNG") else "jpg"
    image = decode_image(content, where)
    task = value("task") or "all"
    subtask = value("subtask") or task
    declared = {question.code: question for question in find_benchmark(DEFAULT_BENCHMARK).questions}
    known = declared.get(subtask, QuestionType(subtask, subtask, category="all"))
    taken = {"index", "image", "question", "answer", *letters, *vars(columns).values(), "id", "sha256", "natural_order"}
    other = {name: text for name, text in row.items() if name not in taken}
    return Item(
        id=row.get("id") or question_id(digest, row["question"], *options),
        task=task,
        subtask=subtask,
        category=value("category") or known.category,
        scene=value("scene") or "unknown",
        prompt_kind=value("prompt_kind") or known.prompt_kind,
        kind=known.kind.name,
        sha256=row.get("sha256") or digest,
        group=group,
        image=f"{IMAGES}/{digest[:16]}.{kind}",
        width=image.shape[1],
        height=image.shape[0],
        question=row["question"],
        options=tuple(options),
        answer=answer,
        entity=value("entity") or options[LETTERS.index(answer)],
        benchmark=config.name,
        dataset=value("dataset"),
        question_original=row["question"],
        natural_order=row.get("natural_order") == "true" or known.natural_order,
        other=json.dumps({"index": row["index"], **other}, ensure_ascii=False, sort_keys=True),
    )
