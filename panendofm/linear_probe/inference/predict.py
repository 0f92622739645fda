"""A trained head on new images: a CSV with file, category, confidence and time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from panendofm.linear_probe.config import PredictConfig
from panendofm.linear_probe.heads.head_file import HeadInfo
from panendofm.linear_probe.heads.head_run import image_files, open_head
from panendofm.runtime.console import say, track
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text

COLUMNS = ("file", "category", "confidence", "time_ms")
STANDARD_OUTPUT = "-"
Line = tuple[str, str, str, str]


def predict(head_path: Path, images: Sequence[str], config: PredictConfig) -> None:
    """One row an image and level. In a task whose classes may meet, every class above one half has a row.

    `out=-` prints the lines and nothing else, so that `challenge time` can run it.
    """
    run = open_head(head_path, config)
    files = image_files(images)
    quiet = config.out == STANDARD_OUTPUT
    root = Path(config.root or "")
    rows: list[Line] = []
    for file in files if quiet else track(files, "images", len(files), "images"):
        began = time.perf_counter()
        answer = run.answer(run.prepare([root / file]))[0]  # [C]
        elapsed_ms = 1000 * (time.perf_counter() - began)
        rows += answer_rows(run.head.info, str(file), answer, elapsed_ms)
    if quiet:
        sys.stdout.write(csv_text(COLUMNS, rows))
    else:
        write_text(config.out, csv_text(COLUMNS, rows))
        say(f"{len(files)} images → {config.out}")


def answer_rows(head: HeadInfo, file: str, answer: torch.Tensor, elapsed_ms: float) -> list[Line]:
    """The lines of one image, of its probabilities [C]."""
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
