"""Labels of images: the truth, and a system's answers to it. Read, checked, refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.names import Key, Match, image_name, resolve, some
from panendofm.challenge.files.text_table import Row, Table, read_table
from panendofm.challenge.files.traits import SIZE_COLUMN, TRAIT_COLUMNS, Trait, row_size_mm, row_traits
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint

TimeUnit = Literal["ms", "s"]
Missing = Literal["refuse", "wrong"]
TRUTH_COLUMNS = (
    *("file", "frame", "label", "category", "group", "patient", "center", "split", "width", "height"),
    *(*TRAIT_COLUMNS, SIZE_COLUMN),
)
ANSWER_COLUMNS = ("file", "frame", "category", "label", "confidence", "time_ms", "time_s")
_FILE_NAME = re.compile(r"(?P<prefix>[^_]+)_(?P<team>.+)_(?P<task>[^_]+)_(?P<run>[^_]+)")
MISSING = -1


@dataclass(frozen=True)
class Truth:
    """One label an image (or frame)."""

    path: Path
    keys: tuple[Key, ...]
    files: tuple[str, ...]  # as written
    classes: tuple[str, ...]
    label: NDArray[np.int64]  # [N]
    groups: NDArray[np.int64]  # [N]; patient, group, video, or each image by itself
    group_kind: str
    centers: tuple[str, ...] | None
    match: Match
    traits: tuple[tuple[Trait, ...], ...]  # [N]
    sizes_mm: tuple[float | None, ...]  # [N]; of the finding

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Answers:
    """A system's answers in the order of the truth; MISSING where there is none."""

    path: Path
    label: NDArray[np.int64]  # [N]
    confidence: NDArray[np.float64]  # [N]; 0 where missing
    time_ms: NDArray[np.float64] | None  # [N]; NaN where missing


def read_truth(path: Path, separator: str = ",", match: Match = "stem", classes: Sequence[str] = ()) -> Truth:
    """`classes`: further ones that may be answered, or their order."""
    table = read_table(path, separator, ("file",), TRUTH_COLUMNS)
    if table.header is None:
        wide = len(table.rows[0].cells)
        if wide not in (2, 3):
            raise table.rows[0].fail(f"a truth has file,label[,group], here are {wide} columns; add a header.")
        table = table.named(*("file", "label", "group")[:wide])
    label_column = next((name for name in ("label", "category") if table.has(name)), None)
    if label_column is None:
        raise table.fail("the column 'label' is missing; the truth has file,label[,group].")
    keys: dict[Key, Row] = {}
    for row in table.rows:
        key = _key(row, match)
        if key in keys:
            remedy = "remove one of them" if match == "path" else "remove one of them, or compare by match=path"
            raise row.fail(f"{row.cells[0]} is there twice (line {keys[key].line}); {remedy}.")
        if not row.text(label_column):
            raise row.fail("the label is empty; every image of the truth has one.")
        keys[key] = row
    names = [row.text(label_column) for row in table.rows]
    every = _classes(path, names, classes)
    number = {name: i for i, name in enumerate(every)}
    groups, kind = _groups(table, list(keys))
    centers = tuple(row.text("center") for row in table.rows) if table.has("center") else None
    return Truth(
        path,
        tuple(keys),
        tuple(row.text("file") for row in table.rows),
        every,
        np.array([number[name] for name in names], np.int64),
        groups,
        kind,
        centers,
        match,
        tuple(row_traits(row) for row in table.rows),
        tuple(row_size_mm(row) for row in table.rows),
    )


def _classes(path: Path, names: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    found = sorted(set(names))
    if len(found) < 2:
        raise UserError(f"{path} holds one class only ({found[0]}): nothing can be told apart; add images of another.")
    if not given:
        return tuple(found)
    unknown = [name for name in found if name not in given]
    if unknown:
        raise UserError(f"{path}: the label '{unknown[0]}' is not among the classes; {hint(unknown[0], given)}")
    return tuple(dict.fromkeys(given))


def _key(row: Row, match: Match) -> Key:
    if not row.text("file"):
        raise row.fail("the file's name is empty; name the image.")
    return image_name(row.text("file"), match), row.frame()


def _groups(table: Table, keys: Sequence[Key]) -> tuple[NDArray[np.int64], str]:
    """Patients where all are known, else given groups, else videos (frames of one file), else single images."""
    for kind in ("patient", "group"):
        if table.has(kind):
            names = [row.text(kind) for row in table.rows]
            if not all(names):
                empty = table.rows[names.index("")]
                raise empty.fail(f"the {kind} is empty; fill it in every line or leave the column out.")
            return np.unique(names, return_inverse=True)[1].astype(np.int64), kind
    files = [name for name, _ in keys]
    kind = "video" if len(set(files)) < len(files) else "image"
    return np.unique(files, return_inverse=True)[1].astype(np.int64), kind


def read_answers(
    path: Path,
    truth: Truth,
    separator: str = ",",
    time_unit: TimeUnit | None = None,
    missing: Missing = "refuse",
) -> Answers:
    table = read_table(path, separator, ("file",), ANSWER_COLUMNS)
    table, unit = _with_header(table, time_unit)
    label_column = "category" if table.has("category") else "label"
    number = {name: i for i, name in enumerate(truth.classes)}
    place = {key: i for i, key in enumerate(truth.keys)}
    names = {name: None for name, _ in truth.keys}
    label = np.full(len(truth), MISSING, np.int64)
    sure = np.zeros(len(truth))
    times = np.full(len(truth), np.nan)
    line_of: dict[Key, int] = {}
    unknown: list[Row] = []
    for row in table.rows:
        name, frame = _key(row, truth.match)
        key = (resolve(name, names, truth.match) or name, frame)
        if key in line_of:
            raise row.fail(f"{row.cells[0]} has an answer already (line {line_of[key]}); keep one.")
        line_of[key] = row.line
        answer = row.text(label_column)
        if answer not in number:
            raise row.fail(f"unknown label '{answer}'; {hint(answer, truth.classes)}")
        value = row.confidence()
        time_ms = row.milliseconds(unit) if unit else np.nan
        if key not in place:
            unknown.append(row)
            continue
        label[place[key]] = number[answer]
        sure[place[key]] = value
        times[place[key]] = time_ms
    if unknown:
        listed = some([f"{row.cells[0]} (line {row.line})" for row in unknown])
        raise UserError(f"{path}: {listed} is not in the truth {truth.path}; remove it, or check the names.")
    absent = np.flatnonzero(label == MISSING)
    if len(absent) and missing == "refuse":
        listed = some([truth.files[i] for i in absent])
        raise UserError(
            f"{path}: no line for {listed}; answer every image of {truth.path}, or count them as wrong answers with "
            "missing=wrong."
        )
    return Answers(path, label, sure, times if unit else None)


def _with_header(table: Table, time_unit: TimeUnit | None) -> tuple[Table, TimeUnit | None]:
    """The table with names for its columns, and the unit of its times."""
    first = table.rows[0]
    if table.header is None:
        wide = len(first.cells)
        if wide not in (3, 4):
            raise first.fail(f"a submission has file,label,confidence[,time], here are {wide} columns; write these.")
        if wide == 4 and time_unit is None:
            raise first.fail("there is a time without a unit; set time_unit=ms or time_unit=s, or add a header.")
        names = ("file", "category", "confidence", f"time_{time_unit}")[:wide]
        return table.named(*names), time_unit if wide == 4 else None
    for name in ("confidence", "category" if "label" not in table.header else "label"):
        if name not in table.header:
            raise table.fail(f"the column '{name}' is missing; a submission has file,category,confidence[,time_ms].")
    if "label" in table.header and "category" in table.header:
        raise table.fail("there are both 'label' and 'category'; keep one of the columns.")
    if "time_ms" in table.header and "time_s" in table.header:
        raise table.fail("there are both 'time_ms' and 'time_s'; keep one of the columns.")
    return table, "ms" if "time_ms" in table.header else "s" if "time_s" in table.header else None


def names_from_file(path: Path) -> dict[str, str]:
    """Team, task and run from PREFIX_TEAM_TASK_RUN.csv; the stem is the team when the name is another."""
    match = _FILE_NAME.fullmatch(path.stem)
    if match is None:
        return {"team": path.stem, "task": "classification", "run": "1"}
    return {name: match[name] for name in ("team", "task", "run")}
