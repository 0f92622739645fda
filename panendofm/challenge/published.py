"""Published rows: shown beside ours and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from panendofm.records.documents import parse_document
from panendofm.runtime.yaml_files import read_yaml
from panendofm.scoring.statistics.ranking import Entry

_FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True)
class PublishedRow:
    """A printed row. `misprints` says what is wrong with a metric of it."""

    team: str
    metrics: dict[str, float]
    method: str = ""
    organizer: bool = False
    misprints: dict[str, str] = field(default_factory=dict)

    def entry(self) -> Entry:
        m = self.metrics
        return Entry(self.team, m["mcc"], m.get("recall"), m.get("specificity"), m.get("fps"), organizer=self.organizer)

    def shown(self, name: str) -> str:
        """The metric as printed, with a mark where it is known to be wrong."""
        value = self.metrics.get(name)
        if value is None:
            return ""
        text = f"{value:,.2f}" if name == "fps" else f"{value:.4f}"
        return text + ("†" if name in self.misprints else "")


@dataclass(frozen=True)
class PublishedTable:
    """A printed table. `task` is the one that it belongs to: that of a challenge's first table is its kind."""

    name: str
    year: int
    task: str
    images: int
    rows: tuple[PublishedRow, ...]
    source: str = ""
    note: str = ""
    device: str | None = None

    def misprints(self, columns: tuple[str, ...]) -> list[str]:
        return [f"{row.team}, {c}: {why}" for row in self.rows for c, why in row.misprints.items() if c in columns]


@dataclass(frozen=True)
class ClinicalRow:
    """A row of the Medico report's last table, as printed."""

    year: int
    team: str
    mcc: float
    mcc_second_run: float | None = None
    fps: float | None = None
    printed: dict[str, int] = field(default_factory=dict)
    misprints: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Table:
    year: int
    task: str
    images: int
    profile: str
    rows: list[PublishedRow]
    device: str | None = None


@dataclass(frozen=True)
class PublishedFile:
    source: str
    note: str
    tables: dict[str, _Table]
    clinical: list[ClinicalRow] = field(default_factory=list)

    def tables_of(self, profile: str) -> tuple[PublishedTable, ...]:
        return tuple(
            PublishedTable(name, t.year, t.task, t.images, tuple(t.rows), self.source, self.note, t.device)
            for name, t in self.tables.items()
            if t.profile == profile
        )


def read_published(name: str) -> PublishedFile:
    """A YAML file beside the profiles."""
    path = _FOLDER / name
    return parse_document(PublishedFile, read_yaml(path, "the published rows"), path, "published rows")
