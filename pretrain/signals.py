"""Stop requests: a signal is noted, the step under way is finished, the run saves and asks to be started again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# SIGTERM: preemption, or a polite kill. SIGUSR2: Slurm's warning before the time limit (--signal=USR2@120).
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


class StopRequest:
    """Set by a signal, read between two steps."""

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.signal_name = signal.Signals(number).name


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Turn stop signals into a request for the length of the block."""
    request = StopRequest()
    before = {number: signal.signal(number, request._handle) for number in STOP_SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ignore_stop_signals(_: int = 0) -> None:
    """For a loader's workers: schedulers signal every process of a job, and the step under way still needs its data."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
