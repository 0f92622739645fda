"""The metrics of a run: one line per logged step, appended; after a resume no step is there twice.

A line holds the step and its losses, each under its own name; everything else has a section (`schedule`, `speed`,
`collapse`, `knn`, …) or is a count or a flag.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import IO, Any

from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_json_lines, write_bytes

# The sum of a step's losses.
TOTAL = "total"
# Of a logged step: numbers, flags, and sections of them. Objectives add names of their own.
StepMetrics = dict[str, Any]


class MetricsFile:
    """The metrics of a run, in the order of its steps.

    A run that goes on from a checkpoint of step s first cuts off the lines of later steps: they are about to be written
    again. A line that a kill has torn goes the same way.
    """

    def __init__(self, path: Path, first_step: int) -> None:
        self.path = path
        if path.exists():
            kept = [line for line in read_metrics(path) if line["step"] < first_step]
            write_bytes(path, metric_lines(kept))
        with naming_path("write", path):
            self._stream: IO[str] = path.open("a", encoding="utf-8")

    def append(self, step: int, values: StepMetrics) -> None:
        with naming_path("write", self.path):
            self._stream.write(_line({"step": step, **values}))
            self._stream.flush()

    def flush_to_disk(self) -> None:
        """Before a checkpoint is written: whoever resumes from it finds all lines before it, even after a power cut."""
        with naming_path("write", self.path):
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def read_metrics(path: Path) -> list[StepMetrics]:
    """The lines of a metrics file; a torn last line is left out."""
    lines = read_json_lines(path)
    for number, line in enumerate(lines, 1):
        if not isinstance(line.get("step"), int):
            raise UserError(f"cannot read {path}: line {number} names no step; restore or remove the line.")
    return lines


def losses_of(line: StepMetrics) -> dict[str, float | None]:
    """The losses of a logged step, whatever the objective calls them; None: not finite."""
    return {name: value for name, value in line.items() if value is None or isinstance(value, float)}


def metric_lines(lines: list[StepMetrics]) -> bytes:
    return "".join(_line(values) for values in lines).encode()


def _line(values: StepMetrics) -> str:
    return json.dumps(_finite(values), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
