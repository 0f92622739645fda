"""One row of the doctor's table, and the notes in which every rank leaves its own."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import append_json_line, make_directory, read_json_lines

Status = Literal["pass", "skip", "warn", "fail"]
# From good to bad: of several ranks the worst counts.
ORDER: tuple[Status, ...] = ("pass", "skip", "warn", "fail")
DEFECT = "this should not happen; please report it with doctor.json"


@dataclass(frozen=True)
class Row:
    """What one check found."""

    check: str
    status: Status
    found: str
    remedy: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


def judged(check: str, good: bool, found: str, remedy: str, bad: Status = "fail", **figures: Any) -> Row:
    """A row that needs its remedy only when it is not good."""
    return Row(check, "pass" if good else bad, found, "" if good else remedy, figures)


class Notes:
    """What one rank has found, appended line by line: whoever reads it after a crash knows what was under way."""

    def __init__(self, path: Path) -> None:
        make_directory(path.parent)
        self._path = path

    @contextmanager
    def family(self, name: str, stops: bool = False) -> Iterator[None]:
        """A family of checks. What goes wrong inside is a row too; `stops`: and it ends what this rank does."""
        append_json_line(self._path, {"begun": name})
        try:
            yield
        except Exception as error:
            self.add(Row(name, "fail", *_words_of(error), figures={"trace": _trace(error)}))
            if stops:
                raise
        append_json_line(self._path, {"ended": name})

    def add(self, row: Row) -> None:
        append_json_line(self._path, asdict(row))


@dataclass(frozen=True)
class RankNotes:
    """What a rank left behind."""

    rows: list[Row]
    begun: list[str]
    unfinished: str | None  # the family that it was at when it ended


def read_notes(path: Path) -> RankNotes:
    lines = read_json_lines(path) if path.is_file() else []
    begun = [line["begun"] for line in lines if "begun" in line]
    ended = {line["ended"] for line in lines if "ended" in line}
    rows = [Row(**line) for line in lines if "check" in line]
    left = [name for name in begun if name not in ended]
    return RankNotes(rows, begun, left[0] if left else None)


def _words_of(error: BaseException) -> tuple[str, str]:
    """What was found, and what to do about it."""
    if isinstance(error, UserError):
        problem, _, remedy = str(error).rstrip(".").partition("; ")
        return problem, remedy or "put that right and run the doctor again"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", DEFECT


def _trace(error: BaseException) -> list[str]:
    """Where it happened, innermost last: files by the last two parts of their names."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} in {frame.name}" for frame in frames[-8:]]
