"""A training on two ranks that is disturbed at random, again and again, and must end as one that was left alone.

    python tests/soak/soak.py [--hours 1] [--seed 0] [--steps 240] [--timeout-seconds 8]

One run is left alone; then runs of the same settings are disturbed until the time is over: ranks are killed, stopped
and continued, asked to save and leave; the disk refuses writes; the newest checkpoint is damaged; a shard is taken away
and brought back; the clock jumps. Whatever ends is started again. All along a watcher scores the checkpoints and is
killed every few seconds; `best` must be right at every look. Every finished run is compared bit by bit: weights,
optimizer and metrics. Memory and open files of the ranks are sampled all along. Exit code 1 when anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parent.parent))
# The packages themselves come before tests/, which has folders of the same names.
sys.path.extend(str(Path(__file__).resolve().parent.parent / folder) for folder in ("..", ".", "pretrain", "soak"))

from engine_faults import no_room_for_large_files
from engine_runs import Rank, assert_same_run, finish, monitored, start_ranks, write_classes, write_shards
from soak_faults import clock_jumps
from soak_watcher import Watcher

from panendofm.records.run import RunFolder
from panendofm.runtime.files import TEMPORARY_MARK

RANKS = 2
MOST_GROWTH_MB = 50
MOST_GROWTH_FILES = 4
TIMEOUT_SECONDS = 8.0  # of the run's own notice of a rank that does not answer
_TELL_SECONDS = 300.0


@dataclass
class Usage:
    """Resident memory and number of open files of every rank, all its life."""

    samples: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # by process: (kB, open files)

    def sample(self, ranks: list[Rank]) -> None:
        for rank in ranks:
            folder = Path(f"/proc/{rank.process.pid}")
            try:
                status = (folder / "status").read_text()
                resident = int(status.split("VmRSS:")[1].split()[0])
                files = len(list((folder / "fd").iterdir()))
            except (OSError, IndexError):
                continue  # it has just ended
            self.samples.setdefault(rank.process.pid or 0, []).append((resident, files))

    def growth(self) -> tuple[float, float]:
        """The most that a process grew from the middle third of its life to the last: MB, open files.

        Medians, since a save holds more of both while it is written.
        """
        memory, files = 0.0, 0.0
        for own in self.samples.values():
            third = len(own) // 3
            if third >= 100:  # a minute in all: a start-up takes memory and files, and is no leak
                middle, last = zip(*own[third : 2 * third], strict=True), zip(*own[-third:], strict=True)
                (kilobytes, opened), (kilobytes_last, opened_last) = (map(median, part) for part in (middle, last))
                memory = max(memory, (kilobytes_last - kilobytes) / 1000)
                files = max(files, opened_last - opened)
        return memory, files


class Soak:
    """One folder of shards, the run that was left alone, and the disturbed ones."""

    def __init__(self, folder: Path, seed: int, steps: int, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.folder, self.dice, self.steps = folder, random.Random(seed), steps
        self.shards = write_shards(folder / "shards")
        self.classes = write_classes(folder / "classes")
        self.watcher: Watcher | None = None
        self.watcher_kills = 0
        self.looks = 0
        self.usage, self.faults, self.finished = Usage(), Counter[str](), 0
        self.problems: list[str] = []
        self.undisturbed = folder / "undisturbed"
        self.keep_last = 3
        self.timeout_seconds = timeout_seconds
        self.told = time.monotonic()
        began = time.monotonic()
        codes, said = self._watch(start_ranks(self._words(self.undisturbed), RANKS), 3600)
        assert codes == [0] * RANKS, said
        self.seconds = time.monotonic() - began

    def _words(self, run: Path) -> list[str]:
        changes = {
            "schedule__total": f"{self.steps} steps",
            "checkpoint__every_steps": 4,
            "checkpoint__keep_last": self.keep_last,
            "checkpoint__keep_unscored": 1000,
            "monitor__mode": "watch",
            "run__timeout_seconds": self.timeout_seconds,
        }
        return monitored(run, self.shards, self.classes, **changes)

    def _watch(self, ranks: list[Rank], seconds: float) -> tuple[list[int | None], str]:
        """Until the ranks end, or the time is over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(rank.code is None for rank in ranks):
            self.usage.sample(ranks)
            time.sleep(0.2)
        return finish(ranks, 1)

    def disturb_one_run(self, until: float) -> None:
        """Faults until the run is over; when the time is over, it is left to finish."""
        run = RunFolder(self.folder / f"run-{self.finished}")
        self.keep_last = 1 + self.finished % 3
        self.watcher = Watcher(run, self.classes, self.dice.randrange(2**31))
        self.watcher.start()
        for _ in range(1000):
            fault = self.dice.choice(FAULTS) if time.monotonic() < until else leave_alone
            codes, said = fault(self, run)
            if fault is not leave_alone:
                self.faults[fault.__name__] += 1
            if codes == [0] * RANKS:
                break
            unexpected = [code for code in codes if code not in (None, 0, 1, 2, 75, -signal.SIGKILL, -signal.SIGTERM)]
            if unexpected:
                self.problems.append(f"{fault.__name__} ended with {codes}: {said[-300:]}")
            if time.monotonic() > self.told + _TELL_SECONDS:
                self.told = time.monotonic()
                self.tell(f"run {self.finished} goes on")
        self.finished += 1
        self.watcher.finish()
        self.watcher_kills += self.watcher.kills
        self.looks += self.watcher.looks
        self.problems += [f"{run.path.name}: {problem}" for problem in self.watcher.problems]
        try:
            assert_same_run(self.undisturbed, run.path, self.steps)
        except (AssertionError, OSError) as error:
            self.problems.append(f"{run.path.name}: it did not end as the one that was left alone: {str(error)[:300]}")
        leftovers = [path.name for path in run.checkpoints.iterdir() if TEMPORARY_MARK in path.name]
        if leftovers:
            self.problems.append(f"{run.path.name}: left behind {leftovers}")
        shutil.rmtree(run.path)

    def tell(self, what: str) -> None:
        now = self.watcher if self.watcher is not None and self.watcher.is_alive() else None
        kills = self.watcher_kills + (now.kills if now else 0)
        looks = self.looks + (now.looks if now else 0)
        problems = self.problems + (now.problems if now else [])
        said = f"; the last one: {problems[-1]}" if problems else ""
        print(
            f"{what}: {sum(self.faults.values())} faults, {kills} watchers killed, {looks} looks at best, "
            f"{len(problems)} problems{said}",
            flush=True,
        )

    # ------------------------------------------------------------------------------------------ parts of faults

    def start(self, run: RunFolder, sabotage: Callable[[], None] | None = None) -> list[Rank]:
        """A start that got on a little, and then some seconds more."""
        before = _lines(run)
        ranks = start_ranks(self._words(run.path), RANKS, sabotage)
        deadline = time.monotonic() + 90
        while _lines(run) == before and time.monotonic() < deadline and all(rank.code is None for rank in ranks):
            self.usage.sample(ranks)
            time.sleep(0.1)
        until = time.monotonic() + self.dice.uniform(0, self.seconds / 3)
        while time.monotonic() < until:
            self.usage.sample(ranks)
            time.sleep(0.2)
        return ranks


def _lines(run: RunFolder) -> int:
    return run.metrics.read_bytes().count(b"\n") if run.metrics.is_file() else -1


def send(rank: Rank, number: int) -> None:
    """A signal, to a rank that may have ended by itself."""
    with contextlib.suppress(ProcessLookupError):
        rank.signal(number)


Fault = Callable[[Soak, RunFolder], tuple[list[int | None], str]]


def leave_alone(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    return soak._watch(start_ranks(soak._words(run.path), RANKS), 20 * soak.seconds + 60)


def kill_one(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ranks = soak.start(run)
    send(soak.dice.choice(ranks), signal.SIGKILL)
    return soak._watch(ranks, 60)


def kill_all(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ranks = soak.start(run)
    for rank in ranks:
        send(rank, signal.SIGKILL)
    return soak._watch(ranks, 60)


def stop_for_good(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    """A rank that no longer answers: the other one must notice, and end."""
    ranks = soak.start(run)
    stopped = soak.dice.randrange(RANKS)
    send(ranks[stopped], signal.SIGSTOP)
    ranks[1 - stopped].process.join(6 * soak.timeout_seconds)
    if ranks[1 - stopped].code is None:
        soak.problems.append("a rank did not notice that the other one had stopped")
    send(ranks[stopped], signal.SIGKILL)
    return soak._watch(ranks, 60)


def stop_and_continue(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ranks = soak.start(run)
    rank = soak.dice.choice(ranks)
    send(rank, signal.SIGSTOP)
    time.sleep(soak.dice.uniform(0.2, 2))
    send(rank, signal.SIGCONT)
    time.sleep(1)
    for rank in ranks:
        send(rank, signal.SIGKILL)
    return soak._watch(ranks, 60)


def ask_to_leave(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ranks = soak.start(run)
    for rank in ranks:
        send(rank, signal.SIGTERM)
    return soak._watch(ranks, 60)


def disk_full(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    """The system refuses what is larger than a few kilobytes, as a full disk does; checkpoints can't be written."""
    ranks = soak.start(run, no_room_for_large_files)
    for rank in ranks:
        send(rank, signal.SIGKILL)
    return soak._watch(ranks, 60)


def damage_newest_checkpoint(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ended = kill_all(soak, run)
    whole = run.whole_checkpoints()
    if len(whole) >= 2 and ended[0] != [0] * RANKS:  # of a run that was quicker than the kill, this is the result
        file = soak.dice.choice(sorted(whole[-1].glob("*.distcp")))
        content = bytearray(file.read_bytes())
        place = soak.dice.randrange(len(content) - 64)
        content[place : place + 64] = bytes(byte ^ 0x55 for byte in content[place : place + 64])
        if soak.watcher is not None:
            soak.watcher.damaged.add(whole[-1].name)
        file.write_bytes(content)
    return ended


def take_a_shard_away(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    """While the run reads; then a start without it, which must be refused; then it is back."""
    ranks = soak.start(run)
    shard = soak.dice.choice(sorted(soak.shards.glob("*.tar")))
    away = shard.with_suffix(".away")
    shard.rename(away)
    try:
        time.sleep(soak.dice.uniform(0, 2))
        for rank in ranks:
            send(rank, signal.SIGKILL)
        ended = soak._watch(ranks, 60)
        if ended[0] == [0] * RANKS:
            return ended
        codes, said = soak._watch(start_ranks(soak._words(run.path), RANKS), 60)
        if codes != [2] * RANKS or shard.name not in said:
            soak.problems.append(f"a start without {shard.name} ended with {codes}")
    finally:
        away.rename(shard)
    return codes, said


def jump_the_clock(soak: Soak, run: RunFolder) -> tuple[list[int | None], str]:
    ranks = soak.start(run, clock_jumps)
    for rank in ranks:
        send(rank, signal.SIGTERM)
    return soak._watch(ranks, 60)


FAULTS: list[Fault] = [
    *(kill_one, kill_all, stop_for_good, stop_and_continue, ask_to_leave, disk_full, damage_newest_checkpoint),
    *(take_a_shard_away, jump_the_clock),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=240, help="of each run")
    parser.add_argument(
        "--timeout-seconds", type=float, default=TIMEOUT_SECONDS, help="of a rank's silence; more on a busy machine"
    )
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    began = time.monotonic()
    try:
        soak = Soak(folder, arguments.seed, arguments.steps, arguments.timeout_seconds)
        print(f"left alone: {arguments.steps} steps in {soak.seconds:.0f} s", flush=True)
        until = began + 3600 * arguments.hours
        while time.monotonic() < until:
            soak.disturb_one_run(until)
            soak.tell(f"run {soak.finished} is over")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    memory, files = soak.usage.growth()
    print(f"{(time.monotonic() - began) / 60:.0f} minutes, {soak.finished} runs of {arguments.steps} steps")
    print(f"{sum(soak.faults.values())} faults: {dict(soak.faults)}")
    print(f"watchers killed: {soak.watcher_kills}; looks at best: {soak.looks}")
    print(f"largest growth from the middle to the last third of a rank's life: {memory:.0f} MB, {files:.0f} open files")
    if memory > MOST_GROWTH_MB or files > MOST_GROWTH_FILES:
        soak.problems.append("memory or open files grow as the run goes on")
    for problem in soak.problems:
        print(f"problem: {problem}")
    if not soak.problems:
        print("all runs ended bit-identical to the one that was left alone")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
