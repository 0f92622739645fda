"""Cells that a spreadsheet would run are written as text, and numbers and names come back as they were."""

from __future__ import annotations

import csv
import io

import pytest

from runtime.csv_files import csv_text, escaped, unescaped


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-a", "-a.jpg"])
def test_formulas_are_text_and_come_back(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(csv_text(["a"], [[text]]), newline="")))[1:]
    assert row[0].startswith("'") and unescaped(row[0]) == text


@pytest.mark.parametrize("cell", ["-0.5", "+1e-3", "-inf", "polyp", "a=b", "", "'quoted'", -0.5, 3, None])
def test_numbers_and_plain_text_stay(cell: object) -> None:
    assert escaped(cell) == cell
    if isinstance(cell, str):
        assert unescaped(cell) == cell
