"""The hidden truth of each phase: whole groups of its rows, so that no patient is in two phases."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import TaskKind
from panendofm.challenge.files.findings import kind_of, read_findings
from panendofm.challenge.files.frames import classes_of, frame_set
from panendofm.challenge.files.names import Key, Match
from panendofm.challenge.files.submissions import read_truth
from panendofm.challenge.files.text_table import read_table, read_utf8
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_text

TRUTH = "truth.csv"


@dataclass(frozen=True)
class HiddenRow:
    """One image or frame of the truth: where its lines stand, and what belongs to it."""

    key: Key
    file: str
    lines: tuple[int, ...]
    masks: tuple[Path, ...] = ()


@dataclass(frozen=True)
class HiddenTruth:
    path: Path
    kind: TaskKind
    classes: tuple[str, ...]
    rows: tuple[HiddenRow, ...]
    groups: NDArray[np.int64]  # [N]
    group_kind: str


def read_hidden_truth(path: Path, match: Match, classes: Sequence[str]) -> HiddenTruth:
    if not path.is_file():
        raise UserError(f"cannot read {path}: there is no such file; check the path.")
    if path.suffix.lower() != ".csv":
        raise UserError(f"{path}: a bundle is made of a truth in CSV; write it as one.")
    kind = kind_of(path)
    if kind == "classification":
        truth = read_truth(path, match=match, classes=classes)
        table = read_table(path, ",", ("file",), read_table_names(path))
        found = [
            HiddenRow(key, file, (row.line,))
            for key, file, row in zip(truth.keys, truth.files, table.rows, strict=True)
        ]
        return HiddenTruth(path, kind, truth.classes, tuple(found), truth.groups, truth.group_kind)
    file = read_findings(path, "truth", kind, match=match)
    frames = frame_set(file)
    found = []
    for key, frame in zip(frames.keys, frames.frames, strict=True):
        lines = sorted({frame.line, *(finding.line for finding in frame.findings)})
        masks = tuple(finding.mask for finding in frame.findings if finding.mask is not None)
        found.append(HiddenRow(key, frame.file, tuple(lines), masks))
    return HiddenTruth(path, kind, classes_of(file, classes), tuple(found), frames.groups, frames.group_kind)


def read_table_names(path: Path) -> tuple[str, ...]:
    """Whatever its header says: it was checked before."""
    return tuple(cell.strip().lower() for cell in read_utf8(path).partition("\n")[0].split(","))


def development_rows(truth: HiddenTruth, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows [N] belong to the development phase: about this share of the groups, drawn at random."""
    groups = np.unique(truth.groups)
    drawn = np.random.default_rng(seed).permutation(groups)[: round(share * len(groups))]
    inside = np.isin(truth.groups, drawn)
    if not inside.any() or inside.all():
        raise UserError(
            f"development_share={share:g} leaves a phase without images; {truth.path} has {len(groups)} groups "
            f"({truth.group_kind}s): choose another share."
        )
    return inside


def write_part(truth: HiddenTruth, inside: NDArray[np.bool_], out: Path) -> list[HiddenRow]:
    """The lines of some rows under the old header, with their masks."""
    lines = read_utf8(truth.path).splitlines()
    rows = [row for row, wanted in zip(truth.rows, inside, strict=True) if wanted]
    first = min(line for row in truth.rows for line in row.lines)
    wanted_lines = sorted({line for row in rows for line in row.lines})
    kept = [*lines[: first - 1], *(lines[number - 1] for number in wanted_lines)]
    write_text(make_directory(out) / TRUTH, "\n".join(kept) + "\n")
    folder = truth.path.parent.resolve()
    for mask in {mask for row in rows for mask in row.masks}:
        if not mask.is_file():
            raise UserError(f"{truth.path}: the mask {mask} does not exist; check the path.")
        if not mask.resolve().is_relative_to(folder):
            raise UserError(f"{truth.path}: the mask {mask} lies outside its folder; move it beside the truth.")
        target = out / mask.resolve().relative_to(folder)
        make_directory(target.parent)
        shutil.copyfile(mask, target)
    return rows
