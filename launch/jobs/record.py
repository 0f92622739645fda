"""A job's record in its run directory: `jobs/STAGE/job.json`, what it did in `events.jsonl`, its logs beside them."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from panendofm.records.documents import read_document, write_document
from panendofm.records.run import RunFolder
from panendofm.records.run import find_runs as runs_below
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import make_directory, read_json_lines

# In a job's words: replaced by the address of its own Ray cluster when that is up.
RAY_ADDRESS = "{ray_address}"
_RECORD = "job.json"
_EVENTS = "events.jsonl"


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


def record_event(job: Job, event: str, **details: Any) -> None:
    """Append one line to the job's history. Short lines in append mode don't mix, whoever writes."""
    path = make_directory(job.folder) / _EVENTS
    content = {"time": time.time(), "submitted": job.submitted, "event": event, **details}
    line = json.dumps(content, sort_keys=True) + "\n"
    with naming_path("write", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def events_of(folder: Path | str) -> list[dict[str, Any]]:
    path = Path(folder) / _EVENTS
    return read_json_lines(path) if path.is_file() else []


def events_since_submission(job: Job) -> list[dict[str, Any]]:
    """The job's own events: a run that is submitted again keeps the history of the jobs before."""
    return [event for event in events_of(job.folder) if event.get("submitted") == job.submitted]


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
