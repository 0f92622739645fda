"""A job on this machine: a supervisor starts the ranks, passes signals on, and restarts them as Slurm would."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from launch.jobs.on_exit import record_end
from launch.jobs.record import Job, JobEvent, read_job, record_event
from panendofm.records.run import EXIT_REQUEUE
from panendofm.runtime.locks import NO_FLOCK
from panendofm.runtime.ports import free_port

# From the request to end until the ranks are killed.
GRACE_SECONDS = 60.0
# Locked while a supervisor lives; the kernel frees it however the process ends.
LOCK_NAME = "supervisor.lock"


class Supervisor:
    """Runs a job's ranks until they are done. SIGTERM and Ctrl-C end the job, SIGUSR2 makes it save and go on."""

    def __init__(self, job: Job, to_terminal: bool) -> None:
        self.job = job
        self.to_terminal = to_terminal
        self.ranks: list[subprocess.Popen[bytes]] = []
        self.cancelled_at: float | None = None

    def run(self) -> int:
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
        before = {number: signal.signal(number, self._pass_on) for number in numbers}
        try:
            return self._go_until_done()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _go_until_done(self) -> int:
        restart = 0
        while True:
            self._record_start(restart)
            self._start()
            if self.cancelled_at is not None:  # between two goes, or while ranks were being started
                self._signal(signal.SIGTERM)
            code = self._wait()
            decision = record_end(self.job, code, "CANCELLED" if self.cancelled_at is not None else "RUNNING")
            if decision != "requeue":
                return code
            restart += 1

    def _record_start(self, restart: int) -> None:
        host, ranks = socket.gethostname(), self.job.tasks_per_node
        started = JobEvent("started", job_id=str(os.getpid()), restart=restart, nodes=host, ranks=ranks)
        record_event(self.job, started)

    def _start(self) -> None:
        port = free_port()
        count = self.job.tasks_per_node
        for rank in range(count):
            environment = environment_of(self.job)
            if count > 1:
                environment |= {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(count),
                    "LOCAL_RANK": str(rank),
                    "LOCAL_WORLD_SIZE": str(count),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                }
            output = None if self.to_terminal else (self.job.folder / f"local_{rank}_log.out").open("ab")
            self.ranks.append(
                subprocess.Popen(
                    [sys.executable, "-m", *self.job.words],
                    cwd=self.job.working_directory,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT if output is not None else None,
                    # Of its own group: Ctrl-C reaches the ranks through the supervisor, once.
                    process_group=0,
                )
            )
            if output is not None:
                output.close()

    def _wait(self) -> int:
        """The job's exit code: the worst of its ranks'. When one fails, the others are ended, and its code counts."""
        crashed_at: float | None = None
        first_failure: int | None = None
        while any(rank.poll() is None for rank in self.ranks):
            failed = [_exit_code(rank) for rank in self.ranks if rank.returncode not in (None, 0, EXIT_REQUEUE)]
            if crashed_at is None and failed:
                # What the others end with from here on is our doing and says nothing about the job.
                crashed_at, first_failure = time.monotonic(), max(failed)
                self._signal(signal.SIGTERM)
            since = min((t for t in (crashed_at, self.cancelled_at) if t is not None), default=None)
            if since is not None and time.monotonic() - since > GRACE_SECONDS:
                self._signal(signal.SIGKILL)
            time.sleep(0.05)
        code = first_failure if first_failure is not None else max(_exit_code(rank) for rank in self.ranks)
        self.ranks = []
        return code

    def _signal(self, number: int) -> None:
        for rank in self.ranks:
            if rank.poll() is None:
                # A request to save is for the rank alone: its loader's processes would die of it.
                (os.killpg if number == signal.SIGKILL else os.kill)(rank.pid, number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGUSR2:
            self.cancelled_at = time.monotonic()
            number = signal.SIGTERM
        self._signal(number)


def _exit_code(rank: subprocess.Popen[bytes]) -> int:
    """Like srun: the code of a process that a signal ended is 128 + its number."""
    code = rank.wait()
    return code if code >= 0 else 128 - code


def environment_of(job: Job) -> dict[str, str]:
    """Python finds the code in the job's snapshot, not in the folder where the job runs."""
    environment = dict(os.environ) | job.environment
    path = [job.code, *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def run_here(job: Job) -> int:
    """In front: the job's lines appear on this terminal."""
    with _lock(job.folder):
        return Supervisor(job, to_terminal=True).run()


def start_in_background(job: Job) -> str:
    """A supervisor that outlives this process and its terminal. Returns its process number."""
    with (job.folder / "supervisor_log.out").open("ab") as output, _lock(job.folder) as descriptor:
        process = subprocess.Popen(
            [sys.executable, "-m", "launch.jobs.local", str(job.folder)],
            cwd=job.working_directory,
            env=environment_of(job),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(descriptor,),  # it holds the lock from its first moment to its last
        )
    return str(process.pid)


@contextmanager
def _lock(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_FLOCK:
                raise
        yield descriptor
    finally:
        os.close(descriptor)


def is_supervised(folder: Path) -> bool:
    """Whether this job's supervisor lives. Looking takes a shared lock, so that lookers don't see one another."""
    path = folder / LOCK_NAME
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in NO_FLOCK:
                raise
            return _lives(folder)
    return False


def _lives(folder: Path) -> bool:
    """Where there is no flock to ask: whether the supervisor's number is that of such a process on this machine."""
    number = read_job(folder).job_id
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"launch.jobs.local" in words and str(folder).encode() in words


if __name__ == "__main__":
    sys.exit(Supervisor(read_job(sys.argv[1]), to_terminal=False).run())
