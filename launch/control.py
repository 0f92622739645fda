"""`cancel` and `logs` of a run's jobs."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from launch.jobs import slurm
from launch.jobs.record import Job, JobEvent, events_since_submission, jobs_of, log_files, record_event
from launch.status import JobState, is_live, states_of
from panendofm.records.run import RunFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError


def cancel_run(run: Path | str, stage: str | None = None) -> list[JobState]:
    """End the live jobs of a run (or of one stage). They get the time to save that Slurm gives them."""
    jobs = _chosen(run, stage)
    ended = []
    for job, state in zip(jobs, states_of(jobs), strict=True):
        if not is_live(state) or state.job_id is None:
            continue
        record_event(job, JobEvent("cancelled"))  # before its end, which asks for this
        if job.kind == "slurm":
            slurm.cancel(state.job_id)
        else:
            _end_supervisor(job, int(state.job_id))
        say(f"cancelled {job.stage}, job {state.job_id}")
        ended.append(state)
    if not ended:
        say(f"nothing to cancel: no job of {run} is waiting or running")
    return ended


def _end_supervisor(job: Job, number: int) -> None:
    """It passes the request on to the job's processes."""
    started = [event for event in events_since_submission(job) if event.event == "started"]
    if started and started[-1].nodes != socket.gethostname():
        raise UserError(f"{job.stage} of {job.run} runs on {started[-1].nodes}; cancel it there.")
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(number, signal.SIGTERM)


def print_logs(run: Path | str, stage: str | None, lines: int, follow: bool) -> None:
    """The end of a job's log (the newest job's, unless a stage is named)."""
    if lines < 1:
        raise UserError(f"--lines {lines}: it must be at least 1.")
    job = _chosen(run, stage)[-1]
    files = log_files(job)
    if not files:
        raise UserError(f"{job.stage} of {run} has not written a log yet; 'python -m launch status {run}' says why.")
    first_rank = [path for path in files if path.name.endswith("_0_log.out")]
    path = (first_rank or files)[-1]
    content = path.read_bytes()
    say(f"{path}:")
    _show(b"\n".join(content.splitlines()[-lines:]) + b"\n")
    if follow:
        _follow(path, len(content), job)


def _follow(path: Path, position: int, job: Job) -> None:
    """Until the job is over; what it wrote last is shown too."""
    live = True
    while live:
        time.sleep(2)
        live = is_live(states_of([job])[0])
        with path.open("rb") as stream:
            stream.seek(position)
            new = stream.read()
        position += len(new)
        _show(new)


def _show(content: bytes) -> None:
    """As bytes: a piece of a growing file may end in the middle of a character."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _chosen(run: Path | str, stage: str | None) -> list[Job]:
    jobs = [job for job in jobs_of(RunFolder(Path(run))) if stage in (None, job.stage)]
    if not jobs:
        wanted = f"no {stage} job" if stage else "no jobs"
        raise UserError(f"{run} has {wanted}; 'python -m launch status' lists the runs that have.")
    return jobs
