"""Running the command in this process, and small files to run it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.challenge.__main__ import STAGE
from panendofm.runtime.command_line import run_stage


def challenge(*words: object) -> int:
    """The exit code of the command."""
    with pytest.raises(SystemExit) as done:
        run_stage(STAGE, [str(word) for word in words])
    return int(done.value.code or 0)


def results(folder: Path) -> dict[str, Any]:
    """results.json as any program reads it."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def scores(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = results(folder)["scores"]
    return found


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def answers(path: Path, right: float, time_ms: float, seed: int, n: int = 300, classes: str = "abcd") -> Path:
    """A submission with about this share of right answers to `labels_truth`."""
    random = np.random.default_rng(seed)
    lines = ["file,category,confidence,time_ms"]
    for i in range(n):
        truth = classes[i % len(classes)]
        answer = truth if random.random() < right else str(random.choice([c for c in classes if c != truth]))
        lines.append(f"{i}.png,{answer},{random.uniform(0.3, 1):.3f},{time_ms * random.uniform(0.9, 1.1):.4f}")
    return write(path, *lines)


def labels_truth(path: Path, n: int = 300, classes: str = "abcd") -> Path:
    return write(path, "file,label,group", *(f"{i}.png,{classes[i % len(classes)]},{i // 3}" for i in range(n)))
