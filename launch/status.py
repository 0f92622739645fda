"""What the jobs of all runs are doing, on one screen."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launch import slurm
from launch.jobs import REQUEUE_EXIT_CODE, Job, events_since_submission, find_runs, jobs_of, log_files, read_job
from launch.local import is_supervisor
from launch.progress import Progress, progress_of
from runtime.console import duration, say, table

# Neither running nor did it get to note its end.
LOST = "LOST"
# A Slurm job that is looked at on a machine without Slurm.
UNKNOWN = "UNKNOWN"
_LINE_OF_TROUBLE = re.compile(r"^(?:\d\d:\d\d:\d\d )?(error: .*|\w*(?:Error|Exception)\b.*)")


@dataclass(frozen=True)
class JobState:
    """A job as it is now. `state` uses Slurm's words for every kind of cluster."""

    stage: str
    job_id: str | None
    state: str
    reason: str = ""
    requeues: int = 0
    nodes: str = ""
    exit_code: int | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class RunStatus:
    run: str
    jobs: list[JobState] = field(default_factory=list)
    progress: Progress | None = None


def is_live(state: JobState) -> bool:
    return state.state not in (*slurm.OVER, LOST)


def job_state(folder: Path | str) -> JobState:
    job = read_job(folder)
    return states_of([job])[0]


def states_of(jobs: list[Job]) -> list[JobState]:
    """All with one question to Slurm."""
    numbers = {job.stage + job.run: _number_of(job) for job in jobs}
    of_slurm = [numbers[job.stage + job.run] for job in jobs if job.kind == "slurm"]
    # A run's folder may be looked at on any machine; without Slurm its own notes must do.
    known = slurm.states([number for number in of_slurm if number is not None]) if slurm.is_here() else {}
    return [_state_of(job, numbers[job.stage + job.run], known) for job in jobs]


def _number_of(job: Job) -> str | None:
    """From the record, else (the submitter died before it heard the number) from the history or from Slurm's queue."""
    if job.job_id is not None:
        return job.job_id
    started = [event["job_id"] for event in events_since_submission(job) if event["event"] == "started"]
    if started:
        return str(started[-1])
    return slurm.find_by_comment(job.folder) if job.kind == "slurm" and slurm.is_here() else None


def _state_of(job: Job, number: str | None, known: dict[str, slurm.SlurmState]) -> JobState:
    events = events_since_submission(job)
    ends = [event for event in events if event["event"] == "ended"]
    starts = sum(event["event"] == "started" for event in events)
    last_end = ends[-1] if ends else None
    from_events = _state_by_history(job, number, events)
    state = known.get(number or "", slurm.SlurmState(from_events))
    failed = state.state in (*slurm.OVER, LOST) and state.state != "COMPLETED"
    return JobState(
        stage=job.stage,
        job_id=number,
        state=state.state,
        reason="" if state.reason == "None" else state.reason,
        requeues=max(starts - 1, state.restarts, 0),
        nodes=state.nodes,
        exit_code=last_end["exit_code"] if last_end else None,
        last_error=last_error(job)
        if failed or (last_end and last_end["exit_code"] not in (0, REQUEUE_EXIT_CODE))
        else None,
    )


def _state_by_history(job: Job, number: str | None, events: list[dict[str, Any]]) -> str:
    """Without Slurm's word: from the job's own notes."""
    if job.kind == "local" and number is not None and is_supervisor(number, job.folder):
        return "RUNNING"
    last = events[-1] if events else None
    if job.kind == "slurm" and not slurm.is_here() and (last is None or last.get("verdict") != "done"):
        return UNKNOWN
    if last is None or last["event"] != "ended":
        return LOST
    return {"done": "COMPLETED", "cancelled": "CANCELLED", "failed": "FAILED"}.get(last["verdict"], LOST)


def last_error(job: Job) -> str | None:
    """The last line in the logs that reads like an error, else the last line."""
    last_line = None
    for path in reversed(log_files(job)):
        lines = [
            line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
        for line in reversed(lines):
            match = _LINE_OF_TROUBLE.match(line)
            if match:
                return match.group(1)
        if lines and last_line is None:
            last_line = lines[-1]
    return last_line


def status_of(root: Path | str) -> list[RunStatus]:
    """Every run at or below `root`."""
    runs = find_runs(root)
    jobs = {run: jobs_of(run) for run in runs}
    states = iter(states_of([job for run in runs for job in jobs[run]]))
    return [RunStatus(str(run), [next(states) for _ in jobs[run]], progress_of(run)) for run in runs]


def print_status(runs: list[RunStatus], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(run) for run in runs], indent=2))
        return
    columns = ["run", "stage", "job", "state", "step", "images/s", "left", "last kNN", "best kNN", "requeues"]
    rows, troubles = [], []
    for run in runs:
        trained = _progress_cells(run.progress)
        for state in run.jobs:
            of_training = state.stage in ("pretrain", "watch")
            cells = trained if of_training else ["-"] * len(trained)
            text = state.state.lower() + (f" ({state.reason})" if state.state == "PENDING" and state.reason else "")
            rows.append([run.run, state.stage, state.job_id or "-", text, *cells, str(state.requeues)])
            if state.last_error:
                troubles.append(f"{run.run} {state.stage}: {state.last_error}")
        if not run.jobs:
            rows.append([run.run, "-", "-", "not launched", *trained, "-"])
    table(f"{len(runs)} run{'s' if len(runs) != 1 else ''} at {time.strftime('%Y-%m-%d %H:%M')}", columns, rows)
    for line in troubles:
        say(f"last error of {line}")


def _progress_cells(progress: Progress | None) -> list[str]:
    if progress is None:
        return ["-"] * 5
    return [
        f"{progress.step}/{progress.total_steps}" if progress.total_steps else str(progress.step),
        f"{progress.images_per_second:.1f}" if progress.images_per_second is not None else "-",
        duration(progress.seconds_left) if progress.seconds_left is not None else "-",
        f"{progress.last_knn:.3f}" if progress.last_knn is not None else "-",
        f"{progress.best_knn:.3f}" if progress.best_knn is not None else "-",
    ]
