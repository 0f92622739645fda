"""The time of `make test`: CPU seconds of all its processes, and by the clock.

    python -m benchmarks.tests [PATH...]

Processes that outlive the one that started them, such as a server of forked ranks, are counted too: this process adopts
them. PATH limits the run to some tests.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, NotMeasured, Size

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ("-m", "pytest", "-q", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder")
CPU_LIMIT_SECONDS, WALL_LIMIT_SECONDS = 12 * 60.0, 14 * 60.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Used:
    cpu: float
    wall: float
    code: int


def run_tests(*words: str) -> Used:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    code = subprocess.run([sys.executable, *COMMAND, *words], cwd=ROOT, env=os.environ, check=False).returncode
    wall = time.monotonic() - began
    _await_orphans(30)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Used(usage.ru_utime + usage.ru_stime, wall, code)


def _await_orphans(seconds: float) -> None:
    """Until the last has ended, for the CPU time of those that have not is not told."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            number, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if number == 0:
            time.sleep(0.2)


def figures(size: Size) -> list[Figure]:
    if size == "small":
        raise NotMeasured("it takes 12 CPU minutes: ask for --size full")
    used = run_tests()
    if used.code != 0:
        raise NotMeasured("a test failed")
    return [
        Figure("make test", used.cpu, "CPU s", "all processes, orphans too", CPU_LIMIT_SECONDS),
        Figure("make test by the clock", used.wall, "s", "three workers", WALL_LIMIT_SECONDS),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    used = run_tests(*parser.parse_args().paths)
    print(f"{used.cpu:.0f} CPU seconds, {used.wall:.0f} s by the clock, exit code {used.code}")
    return used.code


if __name__ == "__main__":
    sys.exit(main())
