"""Rows of papers, on their own questions: shown apart from ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources

from panendofm.records.documents import parse_document
from panendofm.reports import Table
from panendofm.reports.numbers import number
from panendofm.runtime.yaml_files import parse_yaml


@dataclass(frozen=True)
class PublishedRow:
    name: str
    values: list[float | None]


@dataclass(frozen=True)
class PublishedTable:
    title: str
    columns: list[str]
    rows: list[PublishedRow]


@dataclass(frozen=True)
class Published:
    note: str = ""
    digits: int = 3
    tables: list[PublishedTable] = field(default_factory=list)
    questions: dict[str, int] = field(default_factory=dict)  # of each task, in the paper


def read_published(name: str) -> Published:
    """Those of `panendofm/vqa/benchmarks/published/NAME.yaml`."""
    path = resources.files("panendofm.vqa.benchmarks").joinpath("published", f"{name}.yaml")
    values = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    return parse_document(Published, values, path.name, "published rows")


def published_tables(published: Published) -> list[tuple[str, Table]]:
    """Titles and tables for a page."""
    found = []
    for table in published.tables:
        rows = [[row.name, *(number(value, published.digits) for value in row.values)] for row in table.rows]
        found.append((table.title, Table(["model", *table.columns], rows)))
    return found
