"""How far a training run is, from the files in its directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launch.jobs import json_lines


@dataclass(frozen=True)
class Progress:
    step: int
    total_steps: int | None = None
    images_per_second: float | None = None
    seconds_left: float | None = None
    last_knn: float | None = None
    best_knn: float | None = None


def progress_of(run: Path) -> Progress | None:
    """None for a run that has not trained a step."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        return None
    lines = [line for line in json_lines(path) if "step" in line]
    return Progress(step=int(lines[-1]["step"])) if lines else None
