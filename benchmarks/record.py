"""benchmarks.json: every run of `python -m benchmarks`, the oldest first."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.figures import Figure, Size
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.machine import processor_name

FORMAT = 1
_INSTRUCTIONS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx512_bf16": "BF16", "amx_tile": "AMX"}
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Machine:
    processor: str
    instructions: str
    cores: int
    python: str
    torch: str
    load: float  # processes that wanted a core when the run began: beside others, trust ratios and CPU seconds only


@dataclass(frozen=True)
class Result:
    """What one benchmark gave, and what it cost. `not_measured` says why it has no figures."""

    benchmark: str
    figures: tuple[Figure, ...]
    cpu_seconds: float
    wall_seconds: float
    not_measured: str = ""


@dataclass(frozen=True)
class Run:
    date: str
    commit: str  # with a + where the working tree had changes
    machine: Machine
    size: Size
    results: tuple[Result, ...]


@dataclass(frozen=True)
class History:
    runs: tuple[Run, ...] = ()
    format: int = FORMAT


def read_history(path: Path) -> History:
    if not path.exists():
        return History()
    return read_document(History, path, "a record of benchmarks", remedy="move the file away")


def write_history(path: Path, history: History) -> None:
    write_document(path, history)


def this_machine() -> Machine:
    return Machine(
        processor=processor_name(),
        instructions=" ".join(_instructions()),
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        torch=_version_of("torch"),
        load=round(os.getloadavg()[0], 1),
    )


def this_commit() -> str:
    """Empty outside a checkout."""
    commit = _git("rev-parse", "--short=9", "HEAD")
    return commit + "+" if commit and _git("status", "--porcelain", "--untracked-files=no") else commit


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def _instructions() -> list[str]:
    try:
        known = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return []
    return [name for flag, name in _INSTRUCTIONS.items() if flag in known]


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
