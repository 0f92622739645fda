"""`cancel` and `logs` of a run's jobs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from launch import slurm
from launch.jobs import Job, jobs_of, log_files
from launch.status import JobState, is_live, states_of
from runtime.console import say
from runtime.errors import UserError


def cancel_run(run: Path | str, stage: str | None = None) -> list[JobState]:
    """End the live jobs of a run (or of one stage). They get the time to save that Slurm gives them."""
    jobs = _chosen(run, stage)
    ended = []
    for job, state in zip(jobs, states_of(jobs), strict=True):
        if not is_live(state) or state.job_id is None:
            continue
        if job.kind == "slurm":
            slurm.cancel(state.job_id)
        else:
            os.kill(int(state.job_id), signal.SIGTERM)
        say(f"cancelled {job.stage}, job {state.job_id}")
        ended.append(state)
    if not ended:
        say(f"nothing to cancel: no job of {run} is waiting or running")
    return ended


def print_logs(run: Path | str, stage: str | None, lines: int, follow: bool) -> None:
    """The end of a job's log (the newest job's, unless a stage is named)."""
    job = _chosen(run, stage)[-1]
    files = log_files(job)
    if not files:
        raise UserError(f"{job.stage} of {run} has not written a log yet; 'python -m launch status {run}' says why.")
    first_rank = [path for path in files if path.name.endswith("_0_log.out")]
    path = (first_rank or files)[-1]
    text = path.read_text(encoding="utf-8", errors="replace")
    say(f"{path}:")
    print("\n".join(text.splitlines()[-lines:]), flush=True)
    if follow:
        _follow(path, len(text.encode()), job)


def _follow(path: Path, position: int, job: Job) -> None:
    while True:
        live = is_live(states_of([job])[0])
        with path.open("rb") as stream:
            stream.seek(position)
            new = stream.read()
        position += len(new)
        print(new.decode(errors="replace"), end="", flush=True)
        if not live:
            return
        time.sleep(2)


def _chosen(run: Path | str, stage: str | None) -> list[Job]:
    jobs = [job for job in jobs_of(run) if stage in (None, job.stage)]
    if not jobs:
        wanted = f"no {stage} job" if stage else "no jobs"
        raise UserError(f"{run} has {wanted}; 'python -m launch status' lists the runs that have.")
    return jobs
