"""Cells that a spreadsheet would run are written as text, and numbers and names come back as they were."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from panendofm.runtime.csv_files import csv_text, escaped, read_csv, unescaped
from panendofm.runtime.errors import UserError


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-a", "-a.jpg"])
def test_formulas_are_text_and_come_back(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(csv_text(["a"], [[text]]), newline="")))[1:]
    assert row[0].startswith("'") and unescaped(row[0]) == text


@pytest.mark.parametrize("cell", ["-0.5", "+1e-3", "-inf", "polyp", "a=b", "", "'quoted'", -0.5, 3, None])
def test_numbers_and_plain_text_stay(cell: object) -> None:
    assert escaped(cell) == cell
    if isinstance(cell, str):
        assert unescaped(cell) == cell


@pytest.mark.parametrize(
    "text",
    ["a,b\n1,x\n", "\ufeffa;b\r\n1;x\r\n", "a;b\n1;x", "a,b\r1,x\r", 'a,b\n"1",x,surplus\n'],
    ids=["plain", "excel", "no end", "old mac", "long"],
)
def test_a_table_is_read_whatever_a_spreadsheet_made_of_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert read_csv(path, ["a", "b"]) == [{"a": "1", "b": "x"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n" + 200_000 * b"x", "it is no CSV"),
        (b"a\xff,b\n1,2\n", "is not UTF-8 text"),
        (b"c,b\n1,2\n", "the column 'a' is missing; there are: c, b"),
        (b"", "the column 'a' is missing; there are: none"),
    ],
)
def test_a_table_that_is_none_is_refused_in_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(str(path))) as error:
        read_csv(path, ["a"])
    assert said in str(error.value) and "\n" not in str(error.value)


def test_formulas_stay_where_a_program_reads_them_and_a_header_may_be_missing() -> None:
    assert csv_text((), [["=1+1", -1]], delimiter="\t", verbatim=True) == "=1+1\t-1\n"
    assert csv_text((), [["=1+1", -1]]) == "'=1+1,-1\n"


def test_no_other_file_of_the_product_writes_tables() -> None:
    """A second writer would leave formulas as they are."""
    root = Path(__file__).parents[2]
    folders = ("data_pipeline", "eval_knn", "launch", "panendofm", "pretrain")
    files = [path for folder in folders for path in (root / folder).rglob("*.py")]
    writers = [path.name for path in files if re.search(r"csv\.writer|DictWriter|to_csv\(", path.read_text())]
    assert writers == ["csv_files.py"]
