"""`python -m launch.jobs.monitor RUN CONFIG`: a run's kNN monitor, which ends one evaluation after its training."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from launch.jobs.record import is_job
from launch.status import is_live, job_state
from panendofm.records.run import RunFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import exit_code_of

POLL_SECONDS = 10.0


def follow(run: Path, config: Path) -> int:
    """Evaluate checkpoints while the training is under way, and once more when it is over."""
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, _end)
    command = [sys.executable, "-m", "eval_knn", str(run), str(config), "watch=true"]
    monitor = subprocess.Popen([*command, "watcher.idle_seconds=null"])
    try:
        while training_is_live(run):
            code = monitor.poll()
            if code is not None:
                return code if code > 0 else 1  # it watches for ever: an end is a failure
            time.sleep(POLL_SECONDS)
    finally:
        # Results are whole or absent, so the monitor may be ended anywhere; the last pass does again what it was at.
        monitor.terminate()
        monitor.wait()
    say("the training is over; its last checkpoints are evaluated")
    return subprocess.run([*command, "watcher.idle_seconds=0"], check=False).returncode


def training_is_live(run: Path) -> bool:
    """False for a run that was not launched: what is there is then evaluated once."""
    folder = RunFolder(run).job("pretrain")
    return is_job(folder) and is_live(job_state(folder))


def _end(number: int, frame: FrameType | None) -> None:
    """As an exception, so that the monitor is ended too; the default would leave it behind, watching for ever."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: follow(Path(sys.argv[1]), Path(sys.argv[2]))))
