"""CSV, read whatever a spreadsheet made of it, and written so that spreadsheets open it without running it.

A spreadsheet takes a cell that begins with = + - @ for a formula. Text of that kind gets an apostrophe in front, which
spreadsheets hide and `unescaped` takes off; numbers such as -0.5 stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def read_csv(path: Path | str, needed: Sequence[str] = (), delimiter: str | None = None) -> list[dict[str, str]]:
    """The rows by column, cells as they stand there; a line that is too short has empty ones.

    `delimiter`: None takes comma or semicolon, whichever the first line has more of.
    """
    text = read_text(path).removeprefix("\ufeff")
    head = text.partition("\n")[0]
    own = delimiter or (";" if head.count(";") > head.count(",") else ",")
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=own, restval="")
        columns = list(reader.fieldnames or ())
        rows = [{name: cell for name, cell in row.items() if name is not None} for row in reader]
    except csv.Error as error:
        raise UserError(f"cannot read {path}: it is no CSV ({error}); save it as one, in UTF-8.") from error
    for column in needed:
        if column not in columns:
            there = ", ".join(name[:40] for name in columns) or "none"
            raise UserError(f"{path}: the column '{column}' is missing; there are: {there}.")
    return rows


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]], delimiter: str = ",", verbatim: bool = False) -> str:
    """The one writer of tables. An empty header is left out.

    `verbatim` leaves formulas as they are: for files that a program reads which would take the apostrophe for text.
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for row in [*([header] if header else []), *rows]:
        writer.writerow(row if verbatim else [escaped(cell) for cell in row])
    return text.getvalue()


def exact(value: float) -> str:
    """All digits, so that what is read back is what was written; whole numbers without a point."""
    return repr(float(value)).removesuffix(".0")


def escaped(cell: Any) -> Any:
    """The cell as it is written; anything but text is left alone."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) and not _is_number(cell) else cell


def unescaped(cell: str) -> str:
    """The cell as it was before it was written."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.strip() == cell
