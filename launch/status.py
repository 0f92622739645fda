"""What the jobs of all runs are doing, on one screen."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launch.jobs import slurm
from launch.jobs.local import is_supervised
from launch.jobs.record import Job, JobEvent, events_since_submission, find_runs, jobs_of, log_files, read_job
from launch.progress import Progress, progress_of
from panendofm.records.run import EXIT_REQUEUE
from panendofm.runtime.console import duration, say, table, warn
from panendofm.runtime.errors import UserError

# Neither running nor did it get to note its end.
LOST = "LOST"
# A Slurm job of which Slurm could not be asked, and which may still run.
UNKNOWN = "UNKNOWN"
# A stage's own last words (torch puts the rank in front of an exception), and Slurm's about it.
_LINE_OF_TROUBLE = re.compile(r"^(?:\[rank\d+\]: )?(?:\d\d:\d\d:\d\d )?(error: .*|[\w.]*(?:Error|Exception)\b.*)")
_LINE_OF_SLURM = re.compile(r"^(?:srun|slurmstepd\S*): error: (.*)")
# What to know about a job that ended by no doing of its stage.
_EXPLANATIONS = {
    LOST: "it neither runs nor noted its end; submit it again, and it goes on from what it has saved",
    UNKNOWN: "Slurm can't be asked from here; look on the cluster",
    "OUT_OF_MEMORY": "it used more memory than it had asked for; raise 'memory_gb' in the cluster file",
    "TIMEOUT": "its time ran out before it had saved; raise 'warn_seconds' or 'time_minutes' in the cluster file",
    "NODE_FAIL": "Slurm lost one of its nodes; submit it again, and it goes on from what it has saved",
    "BOOT_FAIL": "its nodes did not start; submit it again",
    "DEADLINE": "it could not end before its deadline",
}


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


def states_of(jobs: list[Job], glance: bool = False) -> list[JobState]:
    """All with one question to Slurm. A run's folder may be looked at on any machine, and a controller may be away:
    then the jobs' own notes must do; at a `glance`, after a few seconds.
    """
    patience = slurm.GLANCE if glance else slurm.PATIENT
    numbers = [_number_of(job) for job in jobs]
    known: dict[str, slurm.SlurmState] | None = None
    if slurm.is_here() and any(job.kind == "slurm" for job in jobs):
        try:
            numbers = [number or _number_in_queue(job, patience) for job, number in zip(jobs, numbers, strict=True)]
            numbered = zip(jobs, numbers, strict=True)
            wanted = [number for job, number in numbered if job.kind == "slurm" and number is not None]
            known = slurm.states(wanted, *patience)
        except UserError as error:
            warn(str(error))
    return [_state_of(job, number, known) for job, number in zip(jobs, numbers, strict=True)]


def _number_of(job: Job) -> str | None:
    """From the record, else (the submitter died before it heard the number) from the history."""
    if job.job_id is not None:
        return job.job_id
    started = [event.job_id for event in events_since_submission(job) if event.event == "started"]
    return started[-1] if started else None


def _number_in_queue(job: Job, patience: slurm.Patience) -> str | None:
    return slurm.find_by_comment(job.folder, *patience) if job.kind == "slurm" else None


def _state_of(job: Job, number: str | None, known: dict[str, slurm.SlurmState] | None) -> JobState:
    """`known` is what Slurm told, None when it could not be asked."""
    # Before its notes are read: a job that ends in between has noted it by then.
    supervised = job.kind != "slurm" and is_supervised(job.folder)
    events = events_since_submission(job)
    ends = [event for event in events if event.event == "ended"]
    starts = sum(event.event == "started" for event in events)
    last_end = ends[-1] if ends else None
    may_run = job.kind == "slurm" and known is None
    own = slurm.SlurmState("RUNNING" if supervised else _state_by_history(events, may_run))
    state = (known or {}).get(number or "", own) if job.kind == "slurm" else own
    failed = state.state in (*slurm.OVER, LOST) and state.state not in ("COMPLETED", "CANCELLED")
    return JobState(
        stage=job.stage,
        job_id=number,
        state=state.state,
        reason="" if state.reason == "None" else state.reason,
        requeues=max(starts - 1, state.restarts, 0),
        nodes=state.nodes,
        exit_code=last_end.exit_code if last_end else None,
        last_error=last_error(job, number)
        if failed or (last_end and last_end.exit_code not in (0, EXIT_REQUEUE))
        else None,
    )


def _state_by_history(events: Sequence[JobEvent], may_run: bool) -> str:
    """From the job's own notes; `may_run` when nobody could be asked whether it runs."""
    last = next((event for event in reversed(events) if event.event != "cancelled"), None)
    verdict = last.verdict if last is not None else None  # none when it has started again since its last end
    if verdict in ("done", "failed"):
        return "COMPLETED" if verdict == "done" else "FAILED"
    if verdict == "cancelled" or any(event.event == "cancelled" for event in events):
        return "CANCELLED"
    return UNKNOWN if may_run else LOST


def last_error(job: Job, number: str | None) -> str | None:
    """The last line in the job's logs that reads like an error, else Slurm's last error there, else the last line."""
    last_line = of_slurm = None
    for path in reversed(log_files(job, number)):
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in filter(None, map(str.strip, reversed(text.splitlines()))):
            if match := _LINE_OF_TROUBLE.match(line):
                return match.group(1)
            last_line = last_line or line
            of_slurm = of_slurm or _LINE_OF_SLURM.match(line)
    return of_slurm.group(1) if of_slurm else last_line


def status_of(root: Path | str) -> list[RunStatus]:
    """Every run at or below `root`."""
    runs = find_runs(root)
    jobs = {run: jobs_of(run) for run in runs}
    states = iter(states_of([job for run in runs for job in jobs[run]], glance=True))
    return [RunStatus(str(run.path), [next(states) for _ in jobs[run]], progress_of(run)) for run in runs]


def print_status(runs: list[RunStatus], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(run) for run in runs], indent=2))
        return
    if not runs:
        say("no runs there")
        return
    columns = ["run", "stage", "job", "state", "step", "images/s", "left", "last kNN", "best kNN", "requeues"]
    rows, troubles = [], []
    for run in runs:
        trained = _progress_cells(run.progress)
        for state in run.jobs:
            of_training = state.stage in ("pretrain", "watch")
            cells = trained if of_training else ["-"] * len(trained)
            waits_or_gone = state.state in ("PENDING", "CANCELLED")
            text = state.state.lower() + (f" ({state.reason})" if waits_or_gone and state.reason else "")
            rows.append([run.run, state.stage, state.job_id or "-", text, *cells, str(state.requeues)])
            name = f"{run.run} {state.stage}"
            if state.last_error:
                troubles.append(f"last error of {name}: {state.last_error}")
        if not run.jobs:
            rows.append([run.run, "-", "-", "not launched", *trained, "-"])
    table(f"{len(runs)} run{'s' if len(runs) != 1 else ''} at {time.strftime('%Y-%m-%d %H:%M')}", columns, rows)
    seen = {state.state for run in runs for state in run.jobs}
    for line in [f"{name.lower()}: {text}." for name, text in _EXPLANATIONS.items() if name in seen] + troubles:
        say(line)


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
