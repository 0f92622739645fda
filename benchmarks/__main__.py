"""All benchmarks, each in a process of its own: figures beside peers, limits and goals, as JSON and as a page.

    python -m benchmarks                         all, at a small size
    python -m benchmarks step knn --size full    two of them, at the sizes of the documentation

Each process has one thread, so that CPU seconds tell even where other programs share the machine. A run is added to
benchmarks.json; the page shows the newest value of every figure, its goal, and the values before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.catalog import CATALOG
from benchmarks.figures import Answer, Figure, Size
from benchmarks.page import quoted, render, shown_value
from benchmarks.record import (
    History,
    Result,
    Run,
    read_history,
    this_commit,
    this_machine,
    today,
    write_history,
)
from panendofm.records.documents import read_document
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.files import make_directory, read_text, write_text
from panendofm.runtime.names import hint

RECORD, PAGE = "benchmarks.json", "benchmarks.html"
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTATION = ROOT / "docs" / "explanation" / "benchmarks.md"


def run_one(name: str, size: Size) -> Result:
    environment: Mapping[str, str] = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        answer, log = Path(scratch) / "answer.json", Path(scratch) / "log.txt"
        began = time.monotonic()
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.one", name, size, str(answer)],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall, cpu = time.monotonic() - began, usage.ru_utime + usage.ru_stime
        if process.returncode != 0:
            print(log.read_text(encoding="utf-8"), file=sys.stderr)
            raise UserError(f"the benchmark '{name}' failed; what it said stands above.")
        told = read_document(Answer, answer, "the figures of a benchmark")
    return Result(name, told.figures, round(cpu, 1), round(wall, 1), told.not_measured)


def show(result: Result) -> None:
    cost = f"{result.cpu_seconds:.0f} CPU seconds, {result.wall_seconds:.0f} s"
    if result.not_measured:
        say(f"{result.benchmark}: not measured: {result.not_measured}")
        return
    rows = [
        (f.name, shown_value(f.value, f.unit), "–" if f.goal is None else shown_value(f.goal, f.unit), verdict(f))
        for f in result.figures
    ]
    table(f"{result.benchmark} ({cost})", ("figure", "value", "goal", ""), rows)


def verdict(figure: Figure) -> str:
    return {None: "", True: "met", False: "SHORT OF ITS GOAL"}[figure.met]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="names:\n" + "\n".join(f"  {name:14} {question}" for name, question in CATALOG.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; without any, all")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        help="folder of record and page; the default is this checkout's, and its docs quote it",
    )
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in CATALOG]
    if unknown:
        raise UserError(f"unknown benchmark '{unknown[0]}': {hint(unknown[0], CATALOG)}")
    history = read_history(options.out / RECORD)
    machine, commit, date = this_machine(), this_commit(), today()
    results: list[Result] = []
    make_directory(options.out)
    for name in options.names or CATALOG:
        say(f"{name}: {CATALOG[name]} ...")
        results.append(run_one(name, options.size))
        show(results[-1])
        # After each, so that what was measured is kept when the next one fails.
        run = Run(date, commit, machine, options.size, tuple(results))
        whole = History((*history.runs, run))
        write_history(options.out / RECORD, whole)
        write_text(options.out / PAGE, render(whole))
        if options.out == RESULTS:
            write_text(DOCUMENTATION, quoted(read_text(DOCUMENTATION), whole))
    short = [f"{r.benchmark}: {f.name}" for r in results for f in r.figures if f.met is False]
    say(f"{len(short)} figures short of their goals" + (": " + "; ".join(short) if short else "."))
    say(f"page: {options.out / PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
