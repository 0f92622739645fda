"""Damages the input of every reader again and again, and counts what comes of it.

    python tests/fuzz/fuzz.py [--minutes 30] [--cases N] [--seed 0] [--only NAME]

refused      one sentence (UserError)
equal        read, with the content that it had
other        read as other content: allowed where the input carries no checksum, since it may be a valid file
The bad classes: «other, sealed» (a checksum should have told), «traceback», «hang» (over 20 s), «memory» (1 GB more).
A bad case is written to fuzz-findings/ with its seed. Exit code 1 when there was any.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from mutators import mutate
from subjects import SUBJECTS, Subject

from panendofm.runtime.errors import UserError

BAD = ("other, sealed", "traceback", "hang", "memory")
HANG_SECONDS = 20
MEMORY_BYTES = 1 << 30
_TELL_SECONDS = 60.0


class _HangError(BaseException):
    pass


def _ring(*_: object) -> None:
    raise _HangError


@contextlib.contextmanager
def memory_limit() -> Iterator[None]:
    """One gigabyte more than the process has now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Fuzzed:
    """One reader with its valid input, and the outcomes so far."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self.counts = subject, Counter[str]()
        self.folder = folder / "".join(c if c.isalnum() else "_" for c in subject.name)
        self.folder.mkdir(parents=True)
        self.work = self.folder / "work"
        self.work.mkdir()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if subject.name.startswith("release"):
                self.work.rmdir()
            subject.make(self.work)
            files = sorted(p for p in self.work.rglob(subject.files) if p.is_file())
            self.valid = {path: path.read_bytes() for path in files}
            self.content = subject.read(self.work)
        assert self.valid, subject.name

    def case(self, seed: str) -> str | None:
        """Run one; the trace of a bad one."""
        dice = random.Random(seed)
        path = dice.choice(list(self.valid))
        damaged = mutate(self.valid[path], dice)
        path.write_bytes(damaged)
        try:
            outcome, trace = self._read()
        finally:
            path.write_bytes(self.valid[path])
        if outcome == "other" and damaged == self.valid[path]:
            outcome, trace = "traceback", "the same bytes were read as other content"
        self.counts[outcome] += 1
        return f"{self.subject.name}, {path.name}, seed {seed!r}: {outcome}\n{trace}" if outcome in BAD else None

    def _read(self) -> tuple[str, str]:
        signal.signal(signal.SIGPROF, _ring)
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)  # of computing: the machine may be busy with something else
        try:
            with memory_limit(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                content = self.subject.read(self.work)
        except UserError as error:
            return ("refused", "") if "\n" not in str(error) else ("traceback", f"more than one line: {error}")
        except _HangError:
            return "hang", traceback.format_exc()
        except MemoryError:
            return "memory", traceback.format_exc()
        except Exception:
            return "traceback", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if content == self.content:
            return "equal", ""
        return ("other, sealed" if self.subject.sealed else "other"), ""


def fuzz(
    folder: Path, seed: int, minutes: float | None, cases: int | None, only: str | None = None
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Outcomes by reader, and the bad cases. Readers take turns, by their weight."""
    logging.disable(logging.CRITICAL)
    fuzzed = [Fuzzed(subject, folder) for subject in SUBJECTS if only is None or only in subject.name]
    until = time.monotonic() + 60 * minutes if minutes is not None else None
    done, bad, turn = 0, [], 0
    told = time.monotonic()
    while (until is None or time.monotonic() < until) and (cases is None or done < cases):
        for each in fuzzed:
            for number in range(each.subject.weight):
                trace = each.case(f"{seed}/{turn}/{number}/{each.subject.name}")
                done += 1
                if trace is not None:
                    bad.append(trace)
        turn += 1
        if time.monotonic() > told + _TELL_SECONDS:
            told = time.monotonic()
            print(f"{done} cases, {len(bad)} bad", flush=True)
    return {each.subject.name: each.counts for each in fuzzed}, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--cases", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="readers whose name holds this")
    arguments = parser.parse_args()
    minutes = arguments.minutes if arguments.cases or arguments.minutes else 30.0
    folder = Path(tempfile.mkdtemp())
    try:
        counts, bad = fuzz(folder, arguments.seed, minutes, arguments.cases, arguments.only)
    finally:
        shutil.rmtree(folder)
    classes = ["refused", "equal", "other", *BAD]
    total: Counter[str] = Counter()
    print(f"{'reader'.ljust(28)}" + "".join(name.rjust(15) for name in classes))
    for name, own in counts.items():
        total.update(own)
        print(name.ljust(28) + "".join(str(own[kind]).rjust(15) for kind in classes))
    print(f"{'all'.ljust(28)}" + "".join(str(total[kind]).rjust(15) for kind in classes))
    print(f"{sum(total.values())} cases, {len(bad)} bad")
    if bad:
        out = Path("fuzz-findings")
        out.mkdir(exist_ok=True)
        (out / f"seed-{arguments.seed}.txt").write_text("\n\n".join(bad), encoding="utf-8", errors="replace")
        print(f"see {out / f'seed-{arguments.seed}.txt'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
