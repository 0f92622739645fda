"""What a command says while it works.

On a terminal: lines and a live progress bar. In a log file or a Slurm output: plain lines with the time in front. In a
multi-process job only the first rank speaks; warnings are the exception, they come from every rank, with its number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from panendofm.runtime.errors import naming_path
from panendofm.runtime.files import make_directory
from panendofm.runtime.names import printable

T = TypeVar("T")

# Between two progress lines when there is no terminal.
PROGRESS_EVERY_SECONDS = 10.0

_terminal = Console(highlight=False, markup=False, soft_wrap=True)
_log_file: IO[str] | None = None
_is_quiet = False
# While a bar is drawn, lines must be printed above it, by the bar's own console.
_live: Progress | None = None


def rank() -> int:
    """This process's number in a torchrun or Slurm job; 0 outside one."""
    for name in ("RANK", "SLURM_PROCID"):
        if name in os.environ:
            return int(os.environ[name])
    return 0


def is_main_process() -> bool:
    return rank() == 0


@contextmanager
def log_to(path: Path | str) -> Iterator[None]:
    """Append all that is said inside the block to a file as well (first rank only)."""
    global _log_file
    if not is_main_process():
        yield
        return
    make_directory(Path(path).parent)
    with naming_path("write", path):
        stream = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 (closed below)
    previous, _log_file = _log_file, stream
    try:
        yield
    finally:
        _log_file = previous
        stream.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing inside the block, where a stage runs as a part of something else; warnings are still heard."""
    global _is_quiet
    before, _is_quiet = _is_quiet, True
    try:
        yield
    finally:
        _is_quiet = before


def say(text: str = "") -> None:
    """One line of what is going on."""
    if is_main_process() and not _is_quiet:
        _print(text)


def warn(text: str) -> None:
    """One line that should be noticed, from any rank."""
    _print(f"warning: {text}" if is_main_process() else f"warning (rank {rank()}): {text}")


def _print(text: str) -> None:
    text = "\n".join(printable(line) for line in text.split("\n"))
    stamped = "\n".join(f"{time.strftime('%H:%M:%S')} {line}".rstrip() for line in text.split("\n"))
    if _log_file is not None:
        _log_file.write(stamped + "\n")
    if not _terminal.is_terminal:
        print(stamped, flush=True)
    elif _live is not None:
        _live.console.print(text)
    else:
        _terminal.print(text)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table in plain text that reads the same on a terminal and in a log: first column left, the others right."""
    lines = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    say(title)
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        say("  " + "  ".join([first.ljust(widths[0]), *cells]).rstrip())


class Pace:
    """How long one more will take, from the newer half of what is done.

    What comes first is not like the rest: models are loaded, caches are cold, and several workers end at once. So time
    counts from the first one on, and until a good part of what that took has passed again, nothing is said.
    """

    _FEWEST = 3
    _PART = 0.25
    _KEPT = 512

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._seen: list[tuple[int, float]] = []  # how many were done, and when

    def note(self, done: int, now: float) -> None:
        self._first = now if self._first is None else self._first
        self._seen.append((done, now))
        if len(self._seen) > self._KEPT:  # every second one is enough
            self._seen = self._seen[::2]

    def seconds_each(self) -> float | None:
        """None while nothing sensible can be said."""
        if self._first is None or len(self._seen) < self._FEWEST:
            return None
        (before, then), (done, now) = self._seen[(len(self._seen) - 1) // 2], self._seen[-1]
        if now - self._first < self._PART * (self._first - self._began):
            return None
        return (now - then) / (done - before) if done > before else None


class ProgressBar:
    """Counts towards a total. Get one from `progress`."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self.rate: str | None = None  # what to show as speed; None counts units
        self._began = self._last_line = time.monotonic()
        self._pace = Pace(self._began)
        self._bar: Progress | None = None

    def advance(self, count: int = 1) -> None:
        self.done += count
        self._pace.note(self.done, time.monotonic())
        if self._bar is not None:
            left = "" if (seconds := self._left()) is None else f"{duration(seconds)} left"
            self._bar.update(self._bar.task_ids[0], completed=self.done, speed=self._speed(), left=left)
        elif time.monotonic() - self._last_line >= PROGRESS_EVERY_SECONDS:
            self._last_line = time.monotonic()
            say(self._line())

    def _speed(self) -> str:
        if self.rate is not None:
            return self.rate
        return rate_of(self.done / max(time.monotonic() - self._began, 1e-9), self.unit)

    def _line(self) -> str:
        if not self.total:  # nobody knows how many there will be
            return f"{self.label}: {self.done} {self.unit}, {self._speed()}"
        share = f" ({100 * self.done / self.total:.0f}%)"
        left = "" if (seconds := self._left()) is None else f", {duration(seconds)} left"
        return f"{self.label}: {self.done}/{self.total} {self.unit}{share}, {self._speed()}{left}"

    def _left(self) -> float | None:
        each = self._pace.seconds_each()
        return None if each is None else each * max(self.total - self.done, 0)


@contextmanager
def progress(label: str, total: int, unit: str = "items") -> Iterator[ProgressBar]:
    """A progress bar on a terminal; elsewhere a line now and then, and one at the end."""
    global _live
    bar = ProgressBar(label, total, unit)
    began = time.monotonic()
    if not is_main_process() or not _terminal.is_terminal or _live is not None:
        yield bar
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=_terminal, transient=True) as live:
            live.add_task(label, total=total or None, speed="", left="")
            bar._bar, _live = live, live
            try:
                yield bar
            finally:
                _live = None
    say(f"{label}: {bar.done} {unit} in {duration(time.monotonic() - began)}")


def track(items: Iterable[T], label: str, total: int, unit: str = "items") -> Iterator[T]:
    """Iterate with a progress bar."""
    with progress(label, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def rate_of(per_second: float, unit: str) -> str:
    """3.4 images/s, 12.0 slices/min or 5.0 shards/h: the unit of time in which the number is 1 or more."""
    for seconds, name in ((1, "s"), (60, "min")):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f} {unit}/{name}"
    return f"{per_second * 3600:.1f} {unit}/h"


def duration(seconds: float) -> str:
    """12.3 s, 4 min 05 s, 3 h 20 min or 2 d 04 h: two units are enough."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"
