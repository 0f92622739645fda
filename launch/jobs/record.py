"""A job's record in its run directory: `jobs/STAGE/job.json`, what it did in `events.jsonl`, its logs beside them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from panendofm.records.documents import as_document, parse_document, read_document, write_document
from panendofm.records.run import RunFolder
from panendofm.records.run import find_runs as runs_below
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import append_json_line, make_directory, read_json_lines

# In a job's words: replaced by the address of its own Ray cluster when that is up.
RAY_ADDRESS = "{ray_address}"
_RECORD = "job.json"
_EVENTS = "events.jsonl"
# What becomes of a job whose stage has ended.
Verdict = Literal["done", "requeue", "failed", "cancelled", "slurm decides"]


@dataclass(frozen=True)
class Job:
    """One stage of one run, as it was submitted. All paths are absolute."""

    stage: str
    run: str
    words: list[str]
    working_directory: str
    kind: str
    code: str
    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    max_restarts: int = 3
    uses_ray: bool = False
    restarts_freely: bool = False
    output: str | None = None
    submitted: float = 0.0
    job_id: str | None = None
    after: list[str] = field(default_factory=list)
    format: Literal[1] = 1

    @property
    def folder(self) -> Path:
        return RunFolder(Path(self.run)).job(self.stage)

    @property
    def record(self) -> Path:
        return self.folder / _RECORD

    @property
    def command(self) -> str:
        return "python -m " + " ".join(self.words)

    def save(self) -> None:
        write_document(self.record, self)

    def with_id(self, job_id: str) -> Job:
        return replace(self, job_id=job_id)


def is_job(folder: Path) -> bool:
    return (folder / _RECORD).is_file()


def read_job(folder: Path | str) -> Job:
    return read_document(Job, Path(folder) / _RECORD, "a job's record")


def jobs_of(run: RunFolder) -> list[Job]:
    """The jobs of a run, in the order of their submission."""
    jobs = [read_job(path.parent) for path in run.jobs.glob(f"*/{_RECORD}")]
    return sorted(jobs, key=lambda job: job.submitted)


def find_runs(root: Path | str) -> list[RunFolder]:
    """Runs at or below `root`."""
    if not Path(root).is_dir():
        raise UserError(f"there are no runs at {root}: the folder does not exist; name the folder that holds them.")
    return runs_below(Path(root))


@dataclass(frozen=True)
class JobEvent:
    """A line of a job's history."""

    event: Literal["started", "ended", "cancelled"]
    time: float = 0.0
    submitted: float = 0.0  # of the job: a run that is submitted again keeps the history of the jobs before
    # Of a start.
    job_id: str | None = None
    restart: int | None = None
    nodes: str | None = None
    ranks: int | None = None
    # Of an end.
    exit_code: int | None = None
    state: str | None = None  # Slurm's word for the job
    verdict: Verdict | None = None


def record_event(job: Job, event: JobEvent) -> None:
    """Append it to the job's history, with the time."""
    path = make_directory(job.folder) / _EVENTS
    line = as_document(replace(event, time=time.time(), submitted=job.submitted))
    append_json_line(path, {name: value for name, value in line.items() if value is not None})


def events_of(folder: Path | str) -> list[JobEvent]:
    path = Path(folder) / _EVENTS
    lines = read_json_lines(path) if path.is_file() else []
    return [
        parse_document(JobEvent, line, f"{path}: line {number}", "an event of a job")
        for number, line in enumerate(lines, 1)
    ]


def events_since_submission(job: Job) -> list[JobEvent]:
    """The job's own events, without those of the jobs before."""
    return [event for event in events_of(job.folder) if event.submitted == job.submitted]


def exit_code_file(job: Job) -> Path:
    """Where the first node of a job on Ray notes the stage's exit code, for the other nodes and the batch script.

    Each go of each Slurm job has its own: what an earlier one left behind means nothing.
    """
    return job.folder / f"ray_{os.environ['SLURM_JOB_ID']}_{os.environ.get('SLURM_RESTART_COUNT', '0')}.exit"


def log_files(job: Job, number: str | None = None) -> list[Path]:
    """What the job wrote, the newest last. A run that is submitted again keeps the logs of its earlier jobs on Slurm;
    `number` leaves them out.
    """
    pattern = f"{number}_*_log.out" if job.kind == "slurm" and number is not None else "*_log.out"
    return sorted(job.folder.glob(pattern), key=lambda path: path.stat().st_mtime)
