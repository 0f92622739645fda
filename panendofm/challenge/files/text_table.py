"""Tables in text files: rows with their line numbers, cells checked one by one.

Every refusal is one sentence with the file, the line and what to do. Nothing is repaired or dropped on the quiet: a
damaged file must not give a score.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.runtime.csv_files import unescaped
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.names import hint, printable

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
# Columns by their old names, which files may still have.
_RENAMED_COLUMNS = {"centre": "center"}


@dataclass(frozen=True)
class Row:
    """Cells without the spaces around them, the line that they stand on (from 1), and the names of their columns."""

    path: Path
    line: int
    cells: tuple[str, ...]
    columns: tuple[str, ...] = ()

    def fail(self, what: str) -> UserError:
        return UserError(f"{self.path}, line {self.line}: {what}")

    def text(self, name: str) -> str:
        """The cell of a named column; empty when the table doesn't have it."""
        return self.cells[self.columns.index(name)] if name in self.columns else ""

    def number(self, name: str, what: str) -> float:
        return self.parse_number(self.text(name), what)

    def parse_number(self, text: str, what: str) -> float:
        """A finite number. Python's own extras (1_000, infinity) are refused: other readers would not take them."""
        try:
            value = float(text) if "_" not in text and text.isascii() else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.fail(f"{what} '{text}' is no finite number; write it with a decimal point.")
        return value

    def whole_number(self, name: str, what: str) -> int:
        value = self.number(name, what)
        if value != int(value) or value < 0:
            raise self.fail(f"{what} '{self.text(name)}' is no whole number of 0 or more.")
        return int(value)

    def frame(self) -> int:
        """0 where the table names none: images have one frame."""
        return self.whole_number("frame", "the frame") if self.text("frame") else 0

    def confidence(self) -> float:
        value = self.number("confidence", "the confidence")
        if not 0 <= value <= 1:
            raise self.fail(f"the confidence {self.text('confidence')} lies outside 0 to 1; give a probability.")
        return value

    def milliseconds(self, unit: str) -> float:
        value = self.number(f"time_{unit}", "the time")
        if value <= 0:
            raise self.fail(f"the time {self.text(f'time_{unit}')} is not above 0; write the time that the image took.")
        return value * (1000.0 if unit == "s" else 1.0)


@dataclass(frozen=True)
class Table:
    path: Path
    header: tuple[str, ...] | None
    rows: tuple[Row, ...]

    def has(self, name: str) -> bool:
        return self.header is not None and name in self.header

    def fail(self, what: str) -> UserError:
        """Something about the header."""
        return UserError(f"{self.path}, line 1: {what}")

    def named(self, *columns: str) -> Table:
        """The table with names for its columns."""
        return Table(self.path, columns, tuple(replace(row, columns=columns) for row in self.rows))


def read_utf8(path: Path) -> str:
    if path.is_dir():
        raise UserError(f"cannot read {path}: it is a folder, not a file; check the path.")
    with naming_path("read", path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: these bytes are not UTF-8; save the file as UTF-8 text.") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UserError(f"{path}, line {line}: there is a zero byte; save the file as plain text.")
    return text


def read_table(path: Path, separator: str = ",", headers: Sequence[str] = (), known: Sequence[str] = ()) -> Table:
    """Rows of equally many cells. A first line that starts with one of `headers` is the header; `known` are its names.

    Names of a header are checked against `known`: a misspelled column would otherwise be left out in silence.
    """
    text = read_utf8(path)
    if not text.strip():
        raise UserError(f"{path} is empty; write one line for each image.")
    rows = tuple(_rows(path, text, separator))
    first = rows[0]
    if len(first.cells) == 1:
        raise _one_column(path, first, separator)
    header: tuple[str, ...] = ()
    if first.cells[0].lower() in headers:
        header = tuple(_RENAMED_COLUMNS.get(cell.lower(), cell.lower()) for cell in first.cells)
        _check_header(path, first, header, known)
        rows = rows[1:]
    for row in rows:
        if len(row.cells) != len(first.cells):
            raise UserError(
                f"{path}, line {row.line}: it has {len(row.cells)} columns, line {first.line} has "
                f"{len(first.cells)}; give every line the same columns."
            )
    if not rows:
        raise UserError(f"{path} holds a header and no line; write one line for each image.")
    return Table(path, None, rows).named(*header) if header else Table(path, None, rows)


def _rows(path: Path, text: str, separator: str) -> Iterable[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
    line = 0
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise UserError(f"{path}, line {line + 1}: {error}; close the quotes or take them away.") from None
        if cells is None:
            return
        if reader.line_num > line + 1:
            raise UserError(f"{path}, line {line + 1}: a quotation mark is not closed on its line; close it.")
        line = reader.line_num
        odd = next((cell for cell in cells if printable(cell.strip()) != cell.strip()), None)
        if odd is not None:
            raise UserError(f"{path}, line {line}: there is a control character in '{printable(odd)}'; remove it.")
        if any(cell.strip() for cell in cells):
            yield Row(path, line, tuple(unescaped(cell.strip()) for cell in cells))
        elif len(cells) > 1:
            raise UserError(f"{path}, line {line}: all its cells are empty; fill or remove the line.")


def _one_column(path: Path, row: Row, separator: str) -> UserError:
    other = next((name for name, sign in SEPARATORS.items() if sign != separator and sign in row.cells[0]), None)
    hint = f"set separator={other}, which seems to part them" if other else "part the columns by a comma"
    return UserError(f"{path}, line {row.line}: there is one column; {hint}.")


def _check_header(path: Path, row: Row, header: tuple[str, ...], known: Sequence[str]) -> None:
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"{path}, line {row.line}: the column '{name}' is there twice; remove one.")
        if name not in known:
            raise UserError(f"{path}, line {row.line}: unknown column '{name}'; {hint(name, known)}")
