"""What a scoring run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ScoreSettings:
    out: Path
    allow_partial: bool = False
    draws: int = 1000
    mode: str = "cascade"
    contamination: Path | None = None
    examples_per_subtask: int = 6
    people: Path | None = None
    ratings: Path | None = None
    complete_cases: bool = False
