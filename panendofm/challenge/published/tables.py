"""Published rows: data files that are shown beside ours and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from panendofm.challenge.files.text_table import nearest
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.ranking import Entry


@dataclass(frozen=True)
class PublishedRow:
    """A printed row. `misprints` says what is wrong with a figure of it."""

    team: str
    method: str
    figures: dict[str, float]
    organiser: bool
    misprints: dict[str, str]

    def entry(self) -> Entry:
        f = self.figures
        return Entry(self.team, f["mcc"], f.get("recall"), f.get("specificity"), f.get("fps"), organiser=self.organiser)

    def shown(self, name: str) -> str:
        """The figure as printed, with a mark where it is known to be wrong."""
        value = self.figures.get(name)
        if value is None:
            return ""
        text = f"{value:,.2f}" if name == "fps" else f"{value:.4f}"
        return text + ("†" if name in self.misprints else "")


@dataclass(frozen=True)
class PublishedTable:
    name: str
    year: int
    task: str
    profile: str
    pictures: int
    device: str | None
    rows: tuple[PublishedRow, ...]


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "medico.yaml").read_text(encoding="utf-8"))
    return found


def source() -> str:
    return str(_document()["source"])


def note() -> str:
    return str(_document()["note"])


def published_tables() -> dict[str, PublishedTable]:
    tables = {}
    for name, content in _document()["tables"].items():
        rows = tuple(
            PublishedRow(
                row["team"],
                row.get("method", ""),
                {k: float(v) for k, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)},
                bool(row.get("organiser")),
                dict(row.get("misprints", {})),
            )
            for row in content["rows"]
        )
        tables[name] = PublishedTable(
            name, content["year"], content["task"], content["profile"], content["pictures"], content.get("device"), rows
        )
    return tables


def clinical_rows() -> list[dict[str, Any]]:
    """The Medico report's last table, as printed."""
    rows: list[dict[str, Any]] = _document()["clinical"]
    return rows


def published_table(name: str) -> PublishedTable:
    tables = published_tables()
    if name not in tables:
        raise UserError(f"--published {name}: there is no such table; {nearest(name, tables)}")
    return tables[name]
