"""Rows of papers, on their own questions: shown apart from ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources

from panendofm.records.documents import parse_document
from panendofm.reports import Table
from panendofm.reports.numbers import number
from panendofm.runtime.errors import UserError
from panendofm.runtime.yaml_files import parse_yaml


@dataclass(frozen=True)
class PublishedRow:
    """One row of a paper. Lists are as long as the table has columns, or empty."""

    name: str
    values: list[float | None]
    sd: list[float | None] = field(default_factory=list)  # printed after ±
    marks: list[str] = field(default_factory=list)  # of significance, as printed
    doubtful: dict[str, str] = field(default_factory=dict)  # column → why the value can't be right


@dataclass(frozen=True)
class PublishedTable:
    title: str
    columns: list[str]
    rows: list[PublishedRow]
    source: str = ""
    note: str = ""

    def refuse_gaps(self, where: str) -> None:
        for row in self.rows:
            lists = [row.values, *(extra for extra in (row.sd, row.marks) if extra)]
            unknown = set(row.doubtful) - set(self.columns)
            if unknown or any(len(own) != len(self.columns) for own in lists):
                raise UserError(f"{where}, {self.title}: the row {row.name} does not fit the columns; correct it.")


@dataclass(frozen=True)
class Published:
    note: str = ""
    digits: int = 3
    tables: list[PublishedTable] = field(default_factory=list)
    questions: dict[str, int] = field(default_factory=dict)  # of each task, in the paper
    instructions: int = 0  # conversations to train on, in the paper


def read_published(name: str) -> Published:
    """Those of `panendofm/vqa/benchmarks/published/NAME.yaml`."""
    path = resources.files("panendofm.vqa.benchmarks").joinpath("published", f"{name}.yaml")
    values = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    published = parse_document(Published, values, path.name, "published rows")
    for table in published.tables:
        table.refuse_gaps(path.name)
    return published


@dataclass(frozen=True)
class PublishedView:
    """A table for a page, with notes below it."""

    title: str
    table: Table
    notes: list[str]


def published_views(published: Published) -> list[PublishedView]:
    found = []
    for table in published.tables:
        rows = [_cells(row, table, published.digits) for row in table.rows]
        title = f"{table.title} ({table.source})" if table.source else table.title
        doubts = [f"{row.name}, {column}: {why}" for row in table.rows for column, why in row.doubtful.items()]
        notes = [note for note in (table.note, f"? {'; '.join(doubts)}" if doubts else "") if note]
        found.append(PublishedView(title, Table(["model", *table.columns], rows), notes))
    return found


def _cells(row: PublishedRow, table: PublishedTable, digits: int) -> list[str]:
    """«2.310 ± 0.594*†», with a question mark where the paper can't be right."""
    cells = [row.name]
    empty = [None] * len(table.columns)
    for column, value, sd, mark in zip(
        table.columns, row.values, row.sd or empty, row.marks or [""] * len(empty), strict=True
    ):
        spread = "" if sd is None else f" ± {number(sd, digits)}"
        doubt = " ?" if column in row.doubtful else ""
        cells.append(f"{number(value, digits)}{spread}{mark}{doubt}")
    return cells
