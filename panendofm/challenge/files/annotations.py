"""The log of annotations: one row an act, never edited, only appended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from panendofm.challenge.files.finding_model import Box, check_box
from panendofm.challenge.files.names import Key, image_name
from panendofm.challenge.files.text_table import Row, read_table, read_utf8
from panendofm.runtime.csv_files import csv_text, exact
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.runtime.names import hint

STEPS = ("independent", "cross", "arbitration", "review", "initial")
COLUMNS = (
    *("serial", "file", "frame", "category", "x", "y", "w", "h", "mask", "step", "annotator", "sources", "merge"),
    *("decision", "date"),
)
OPTIONAL = ("device", "collected", "width", "height", "fps", "hospital", "age", "sex", "ethnicity")
_TEXTS = ("serial", "file", "category", "mask", "step", "annotator", "merge", "decision", "date")
MERGES, DECISIONS = ("average", "majority"), ("gold", "back", "arbitrate")


@dataclass(frozen=True)
class Act:
    """What one doctor, or the merging, did with one object of a frame."""

    line: int
    serial: str
    file: str
    frame: int
    category: str
    box: Box | None = None
    mask: str = ""
    step: str = ""
    annotator: str = ""
    sources: tuple[str, ...] = ()
    merge: str = ""
    decision: str = ""
    date: str = ""
    optional: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return image_name(self.file, "stem"), self.frame

    def cells(self) -> list[str]:
        box = [""] * 4 if self.box is None else [exact(v) for v in self.box]
        return [
            *(self.serial, self.file, str(self.frame), self.category, *box, self.mask, self.step, self.annotator),
            *(" ".join(self.sources), self.merge, self.decision, self.date, *self.optional),
        ]


@dataclass(frozen=True)
class Log:
    path: Path
    header: tuple[str, ...]
    acts: tuple[Act, ...]

    def fail(self, act: Act, what: str) -> UserError:
        return UserError(f"{self.path}, line {act.line}: {what}")


def read_log(path: Path, may_be_empty: bool = False) -> Log:
    """`may_be_empty`: a header alone is a log, too."""
    if may_be_empty:
        lines = read_utf8(path).splitlines()
        if len(lines) == 1 and tuple(lines[0].split(","))[: len(COLUMNS)] == COLUMNS:
            return Log(path, tuple(lines[0].split(",")), ())
    table = read_table(path, ",", ("serial",), (*COLUMNS, *OPTIONAL))
    if table.header is None or table.header[: len(COLUMNS)] != COLUMNS:
        raise UserError(f"{path}, line 1: the log must start with the columns {','.join(COLUMNS)}.")
    acts: dict[str, Act] = {}
    for row in table.rows:
        act = _act(row)
        if act.serial in acts:
            raise row.fail(f"the serial {act.serial} is there already (line {acts[act.serial].line}); count on.")
        for source in act.sources:
            if source not in acts:
                raise row.fail(f"its source {source} is not above it in the log; correct 'sources'.")
        acts[act.serial] = act
    return Log(path, table.header, tuple(acts.values()))


def _act(row: Row) -> Act:
    cell = dict(zip(row.columns, row.cells, strict=True))
    for name in ("serial", "file", "step", "annotator", "date"):
        if not cell[name]:
            raise row.fail(f"'{name}' is empty; every act says who did what and when.")
    if cell["step"] not in STEPS:
        raise row.fail(f"there is no step '{cell['step']}'; {hint(cell['step'], STEPS)}")
    for name, allowed in (("merge", MERGES), ("decision", DECISIONS)):
        if cell[name] and cell[name] not in allowed:
            raise row.fail(f"'{name}' is '{cell[name]}'; {hint(cell[name], allowed)}")
    if cell["step"] == "cross" and not (cell["sources"] and (cell["merge"] or cell["decision"] == "arbitrate")):
        raise row.fail("a cross step names its sources and how they were merged.")
    if cell["step"] == "review" and cell["decision"] not in ("gold", "back"):
        raise row.fail("a review decides 'gold' or 'back'.")
    if cell["step"] == "review" and not cell["sources"]:
        raise row.fail("a review names in 'sources' what it decides about.")
    return Act(
        line=row.line,
        frame=row.frame(),
        box=_box(row),
        sources=tuple(cell["sources"].split()),
        optional=row.cells[len(COLUMNS) :],
        **{name: cell[name] for name in _TEXTS},
    )


def _box(row: Row) -> Box | None:
    if not any(row.text(side) for side in "xywh"):
        return None
    x, y, w, h = (row.number(side, "the box") for side in "xywh")
    if (x, y, w, h) == (0, 0, 0, 0):  # the benchmark's own sign for «no agreement»
        return None
    check_box(row.fail, (x, y, w, h))
    return x, y, w, h


def append(log: Log, acts: Sequence[Act]) -> None:
    """The old bytes stay as they are; the new rows come after them, and all appears at once."""
    old = log.path.read_text(encoding="utf-8")
    new = csv_text(log.header, [act.cells() for act in acts]).split("\n", 1)[1]
    write_text(log.path, old + ("" if old.endswith("\n") else "\n") + new)
