"""`python -m launch.jobs.on_exit JOB_FOLDER EXIT_CODE`: the batch script asks whether the job starts again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from launch.jobs import slurm
from launch.jobs.record import (
    Job,
    JobEvent,
    Verdict,
    events_since_submission,
    exit_code_file,
    read_job,
    record_event,
)
from panendofm.records.run import EXIT_REQUEUE
from panendofm.runtime.console import say
from panendofm.runtime.errors import EXIT_USER_ERROR, exit_code_of

# A controller that is away for a while (some minutes) must not cost a job its requeue.
_TRIES = 100
_ENDED_BY_WARNING = (128 + signal.SIGUSR2, 128 + signal.SIGTERM)


def verdict(
    exit_code: int, crashes: int, max_restarts: int, state: str = "RUNNING", restarts_freely: bool = False
) -> Verdict:
    """What becomes of a job whose stage has ended.

    `crashes` counts the unasked-for ends in a row, this one included; `state` is Slurm's word for the job. Slurm itself
    restarts a job that it preempted or whose node it lost, so there is nothing to decide then. A stage that restarts
    freely keeps all that it has finished, so it may simply be ended by the warning signal.
    """
    if state == "CANCELLED":
        return "cancelled"
    if exit_code == 0:
        return "done"
    if state not in ("RUNNING", "TIMEOUT"):
        return "slurm decides"
    if exit_code == EXIT_REQUEUE:
        return "requeue"
    if restarts_freely and exit_code in _ENDED_BY_WARNING:
        return "requeue"
    # The user must change something first: starting again would end the same way.
    if exit_code == EXIT_USER_ERROR:
        return "failed"
    return "requeue" if crashes <= max_restarts else "failed"


def crashes_in_a_row(events: Sequence[JobEvent]) -> int:
    """Ends since the stage last saved and asked for its requeue that it did not ask for."""
    count = 0
    for event in reversed(events):
        if event.event == "ended":
            if event.exit_code in (0, EXIT_REQUEUE):
                break
            count += 1
    return count


def record_end(job: Job, exit_code: int, state: str = "RUNNING") -> Verdict:
    """Write the end into the job's history, with the verdict."""
    events = events_since_submission(job)
    # While a cancelled job ends, Slurm calls it COMPLETING; whoever cancelled it has noted that.
    if events and events[-1].event == "cancelled":
        state = "CANCELLED"
    past = crashes_in_a_row(events)
    crashed = exit_code not in (0, EXIT_REQUEUE) and state in ("RUNNING", "TIMEOUT")
    decision = verdict(exit_code, past + crashed, job.max_restarts, state, job.restarts_freely)
    record_event(job, JobEvent("ended", exit_code=exit_code, state=state, verdict=decision))
    return decision


def main(folder: Path, exit_code: int) -> int:
    """Runs in the batch script, after the stage. The code it returns becomes the job's."""
    job, job_id = read_job(folder), os.environ["SLURM_JOB_ID"]
    if job.uses_ray:
        # srun's code is also that of nodes that were lost on the way; the stage's own counts.
        noted = exit_code_file(job)
        exit_code = int(noted.read_text()) if noted.exists() else exit_code or 1
    known = slurm.states([job_id], _TRIES).get(job_id)
    decision = record_end(job, exit_code, known.state if known else "RUNNING")
    say(f"{job.stage} ended with exit code {exit_code}: {decision}")
    if decision == "requeue":
        slurm.requeue(job_id, _TRIES)
    return exit_code


def end_after_a_killed_script(job: Job) -> None:
    """Runs beside a batch script that was killed: Slurm calls the job failed by now, unless it ended it itself."""
    job_id = os.environ["SLURM_JOB_ID"]
    known = slurm.states([job_id], _TRIES).get(job_id)
    state = known.state if known and known.state not in ("COMPLETING", "FAILED") else "RUNNING"
    decision = record_end(job, 128 + signal.SIGKILL, state)
    say(f"the batch script of {job.stage} was killed: {decision}")
    if decision == "requeue":
        slurm.requeue(job_id, _TRIES)


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: main(Path(sys.argv[1]), int(sys.argv[2]))))
