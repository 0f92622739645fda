"""`python -m launch.jobs.requeue_watchdog JOB_FOLDER PID`: starts a job again whose batch script was killed.

The script's last lines decide whether a job starts again; a script that was killed (by the kernel for want of memory,
or by hand) does not come to them, and Slurm calls the job failed. The watchdog is a step of its own beside the stage.
It outlives the script by the seconds that Slurm gives a job to end in. The stage starts when the watchdog has told the
script (SIGUSR1) that it is up: before that there is nothing to lose.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from launch.jobs.on_exit import end_after_a_killed_script
from launch.jobs.record import Job, events_since_submission, read_job
from panendofm.runtime.errors import exit_code_of

# Of the seconds that Slurm gives (KillWait, 30 by default), as many as possible are for asking the controller.
_POLL_SECONDS = 0.2


def ends_noted(job: Job) -> int:
    return sum(event.event == "ended" for event in events_since_submission(job))


def main(folder: Path, script: int) -> int:
    # Warning, preemption and the end of the job are told to every step; only the script's end ends the watchdog.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job = read_job(folder)
    before = ends_noted(job)
    _send(script, signal.SIGUSR1)
    while _send(script, 0):
        time.sleep(_POLL_SECONDS)
    if ends_noted(job) == before:
        end_after_a_killed_script(job)
    return 0


def _send(process: int, number: int) -> bool:
    """Whether there was a process to get the signal; 0 only asks for that."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: main(Path(sys.argv[1]), int(sys.argv[2]))))
