"""A trained head on new pictures: a CSV with file, category, confidence and time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from panendofm.linear_probe.heads.head_file import StoredHead
from panendofm.linear_probe.heads.head_run import open_head, picture_files
from panendofm.runtime.console import say, track
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text

COLUMNS = ("file", "category", "confidence", "time_ms")
STANDARD_OUTPUT = "-"
Line = tuple[str, str, str, str]


def predict(
    head_path: Path, images: list[str], weights: str | None, out: Path, device: str = "cpu", root: Path | None = None
) -> Path:
    """One row a picture and level. In a task whose classes may meet, every class above one half has a row.

    `out` may be "-": the lines are printed and nothing else is, so that `challenge time` can run it. `root` is the
    folder that listed files are relative to.
    """
    run = open_head(head_path, weights, device)
    files = picture_files(images)
    quiet = str(out) == STANDARD_OUTPUT
    rows: list[Line] = []
    for file in files if quiet else track(files, "pictures", len(files), "images"):
        began = time.perf_counter()
        answer = run.answer(run.prepare([root / file if root else file]))[0]  # [C]
        elapsed_ms = 1000 * (time.perf_counter() - began)
        rows += answer_rows(run.head, str(file), answer, elapsed_ms)
    if quiet:
        sys.stdout.write(as_csv(rows))
    else:
        write_text(out, as_csv(rows))
        say(f"{len(files)} pictures → {out}")
    return out


def answer_rows(head: StoredHead, file: str, answer: torch.Tensor, elapsed_ms: float) -> list[Line]:
    """The lines of one picture, of its probabilities [C]."""
    rows = []
    for level, start, stop in head.levels:
        chosen = answer[start:stop]
        best = int(chosen.argmax())
        shown = [best] if head.exclusive else sorted({best, *torch.nonzero(chosen > 0.5).flatten().tolist()})
        for c in shown:
            name = head.classes[start + c]
            category = f"{level}:{name}" if level else name
            rows.append((file, category, f"{float(chosen[c]):.4f}", f"{max(elapsed_ms, 0.001):.3f}"))
    return rows


def as_csv(rows: list[Line]) -> str:
    return csv_text(COLUMNS, rows)


def exclusive_head(head: StoredHead, path: Path) -> None:
    if not head.exclusive or len(head.levels) > 1:
        raise UserError(
            f"{path}: its task ({head.task}) allows several answers a picture; use a head of a task with one, such as "
            "that of a folder of class folders."
        )
