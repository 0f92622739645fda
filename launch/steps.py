"""Commands of a user in their order, each in its own process, those that need nothing of each other side by side."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from panendofm.runtime.console import duration, say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory

# What a process frees stays its own: to give large activations back and ask for the same pages again takes most of the
# time of a convolution on some machines.
KEEP_FREED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


@dataclass(frozen=True)
class Step:
    """One command and what it leaves behind to look at."""

    title: str
    words: tuple[str, ...]
    result: Path
    finished: Path | None = None  # of a stage that never writes over its output: there when that is whole

    @property
    def command(self) -> str:
        """As a user types it: `panendofm …` for the library, `python -m STAGE …` for the pipeline."""
        return shlex.join(self.words) if self.words[0] == "panendofm" else "python -m " + shlex.join(self.words)


Lanes = Sequence[Sequence[Step]]  # side by side; within a lane one step after the other


def run_parts(parts: Sequence[Lanes], logs: Path) -> None:
    """One part after the other. What is finished is passed over, so that an interrupted series goes on."""
    steps = [step for lanes in parts for lane in lanes for step in lane]
    numbers = {step: f"{number}/{len(steps)}" for number, step in enumerate(steps, 1)}
    make_directory(logs)
    for lanes in parts:
        failed = threading.Event()
        with ThreadPoolExecutor(len(lanes)) as pool:
            try:
                for lane in [pool.submit(_run_lane, lane, numbers, logs, len(lanes), failed) for lane in lanes]:
                    lane.result()
            except BaseException:  # also Ctrl-C: the pool waits for its lanes, which must not begin another step
                failed.set()
                raise


def _run_lane(lane: Sequence[Step], numbers: dict[Step, str], logs: Path, beside: int, failed: threading.Event) -> None:
    """Ends early when a step of this lane or of another has failed."""
    for step in lane:
        if failed.is_set():
            return
        number = numbers[step]
        if step.finished is not None and step.finished.is_file():
            say(f"[{number}] {step.title}: is there: {step.result}")
            continue
        say(f"[{number}] {step.title}: {step.command}")
        began = time.monotonic()
        try:
            run_step(step, logs / f"{number.split('/')[0]}.log", beside)
        except BaseException:
            failed.set()
            raise
        say(f"[{number}] took {duration(time.monotonic() - began)}: {step.result}")


def run_step(step: Step, log: Path, beside: int = 1) -> None:
    """`beside`: how many such steps share the cores."""
    shared = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // beside))} if beside > 1 else {}
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            [sys.executable, "-m", *step.words],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | KEEP_FREED_MEMORY | shared,
            check=False,
        ).returncode
    if code != 0:
        last_line = next((line for line in reversed(log.read_text(encoding="utf-8").splitlines()) if line.strip()), "")
        raise UserError(f"'{step.command}' ended with exit code {code} ({last_line.strip()}); all it said is in {log}.")
