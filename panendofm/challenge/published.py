"""Published rows: shown beside ours and never mixed with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from panendofm.records.documents import parse_document
from panendofm.runtime.yaml_files import read_yaml
from panendofm.scoring.statistics.ranking import Entry


@dataclass(frozen=True)
class PublishedRow:
    """A printed row. `misprints` says what is wrong with a metric of it."""

    team: str
    metrics: dict[str, float]
    method: str = ""
    organizer: bool = False
    misprints: dict[str, str] = field(default_factory=dict)

    def entry(self, rank_by: str) -> Entry:
        m = self.metrics
        return Entry(
            self.team, m[rank_by], m.get("recall"), m.get("specificity"), m.get("fps"), organizer=self.organizer
        )

    def shown(self, name: str) -> str:
        """The metric as printed, with a mark where it is known to be wrong."""
        value = self.metrics.get(name)
        if value is None:
            return ""
        return (f"{value:,.2f}" if name == "fps" else f"{value:.4f}") + ("†" if name in self.misprints else "")


@dataclass(frozen=True)
class PublishedTable:
    """A printed table. `task` is classification, detection or segmentation, or another ranking such as efficiency."""

    year: int
    task: str
    images: int
    rows: list[PublishedRow]
    profile: str = ""
    device: str | None = None
    name: str = ""
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class PublishedClinicalRow:
    """A row of the Medico report's last table, as printed."""

    year: int
    team: str
    mcc: float
    printed: dict[str, int]
    mcc_second_run: float | None = None
    fps: float | None = None
    misprints: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedFile:
    source: str
    note: str
    tables: dict[str, PublishedTable]
    clinical: list[PublishedClinicalRow] = field(default_factory=list)

    def tables_of(self, profile: str) -> tuple[PublishedTable, ...]:
        return tuple(
            replace(table, name=name, source=self.source, note=self.note)
            for name, table in self.tables.items()
            if table.profile == profile
        )


def read_published(path: Path) -> PublishedFile:
    return parse_document(PublishedFile, read_yaml(path, "the published rows"), path, "published rows")
