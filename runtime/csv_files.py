"""CSV text that spreadsheets open without running it.

A spreadsheet takes a cell that begins with = + - @ for a formula. Text of that kind gets an apostrophe in front, which
spreadsheets hide and `unescaped` takes off; numbers such as -0.5 stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([escaped(cell) for cell in header])
    writer.writerows([[escaped(cell) for cell in row] for row in rows])
    return text.getvalue()


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
