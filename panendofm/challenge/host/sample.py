"""A submission that is valid and knows nothing: for participants to see the form."""

from __future__ import annotations

from collections.abc import Sequence

from panendofm.challenge.files.finding_model import TaskKind
from panendofm.challenge.host.split_truth import HiddenRow

_COLUMNS: dict[TaskKind, tuple[str, ...]] = {
    "classification": ("file", "frame", "category", "confidence"),
    "detection": ("file", "frame", "category", "confidence", "x", "y", "w", "h"),
    "segmentation": ("file", "frame", "category", "mask", "polygon"),
    "localization": ("file", "frame", "category", "confidence", "x", "y"),
}


def answer_columns(kind: TaskKind) -> tuple[str, ...]:
    return _COLUMNS[kind]


def sample_rows(kind: TaskKind, rows: Sequence[HiddenRow], classes: Sequence[str]) -> list[list[object]]:
    """The first class by the alphabet for labels; else: looked at, nothing found."""
    if kind == "classification":
        return [[row.file, row.key[1], min(classes), 1 / len(classes)] for row in rows]
    empty = [""] * (len(_COLUMNS[kind]) - 2)
    return [[row.file, row.key[1], *empty] for row in rows]
