"""What every benchmark gives: figures, each beside a peer or a limit, with a goal where there is one.

A module of this package takes part in `python -m benchmarks` when it has `figures(size) -> list[Figure]` and stands in
`benchmarks/catalog.py`. "small" ends within a minute or two of a core, "full" takes the sizes of the documentation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Size = Literal["small", "full"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Figure:
    """`beside` names what the value is compared with; without a goal the figure is shown and not judged."""

    name: str
    value: float
    unit: str
    beside: str
    goal: float | None = None
    better: Better = "lower"

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal


@dataclass(frozen=True)
class Answer:
    """What a benchmark's process tells: its figures, or why it has none."""

    figures: tuple[Figure, ...]
    not_measured: str = ""


class NotMeasured(Exception):  # noqa: N818 - it is no error: this machine lacks something, and the message says what
    """Why a benchmark can't run here."""


def real_images() -> Path:
    """Folder of real endoscopy images, which are not part of the repository."""
    folder = os.environ.get("ENDOSCOPY_DATA", "")
    if not folder:
        raise NotMeasured("set ENDOSCOPY_DATA to a folder of real endoscopy images")
    return Path(folder)
