"""ranking.json: what it holds, written and read here alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from panendofm.records.documents import read_document, write_document
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text
from panendofm.scoring.statistics.estimates import Estimate

RANKING = "ranking.json"


@dataclass(frozen=True)
class RankedRow:
    """The best run of a team. `rank` is None for organizers and for those that miss a threshold; `note` says why."""

    rank: int | None
    team: str
    run: str
    metrics: dict[str, Estimate]  # the first one decides
    fps: float | None
    note: str


@dataclass(frozen=True)
class ClinicalRow:
    """A row as in the Medico report's last table."""

    rank: int
    team: str
    mcc: float
    mcc_second_task: float
    fps: float
    mcc_rank: int
    robustness_rank: int
    speed_rank: int
    mean_of_ranks: float


@dataclass(frozen=True)
class PairedTest:
    """The difference in multi-class MCC of two systems on the same drawn groups."""

    a: str
    b: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_corrected: float | None


@dataclass(frozen=True)
class Ranking:
    task: str
    reading: str | None
    profile: str
    truth_sha256: str
    metrics: list[str]
    rows: list[RankedRow]
    paired_tests: list[PairedTest]
    pareto_front: list[str]
    published: str | None
    clinical_rows: list[ClinicalRow] = field(default_factory=list)
    format: Literal[2] = 2

    @property
    def title(self) -> str:
        return self.task + (f", reading {self.reading}" if self.reading else "")


def write_ranking(out: Path, ranking: Ranking) -> None:
    """ranking.json for programs, ranking.csv for spreadsheets."""
    write_document(out / RANKING, ranking)
    if ranking.clinical_rows:
        columns = list(vars(ranking.clinical_rows[0]))
        cells = [list(vars(row).values()) for row in ranking.clinical_rows]
    else:
        columns = ["rank", "team", "run", *ranking.metrics, "fps", "note"]
        cells = [
            [row.rank, row.team, row.run, *(row.metrics[name].value for name in ranking.metrics), row.fps, row.note]
            for row in ranking.rows
        ]
    write_text(out / "ranking.csv", csv_text(columns, cells))


def read_ranking(folder: Path) -> Ranking:
    return read_document(Ranking, folder / RANKING, "a ranking that 'challenge rank' wrote")
