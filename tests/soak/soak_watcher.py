"""A watcher beside a disturbed training: it is killed and started again, and `best` is looked at all along."""

from __future__ import annotations

import os
import random
import runpy
import sys
import threading
import time
from pathlib import Path

import fork_server

from eval_knn import SelectionConfig, must_stay, read_history
from panendofm.records.run import RunFolder, is_whole_checkpoint, step_name

RULE = SelectionConfig(metric="top1_k3", patience_evaluations=0)
KEYS = (
    "watch=true", "watcher.poll_seconds=0.2", "ks=[1,3]", "selection.metric=top1_k3",
    "selection.patience_evaluations=0", "data.clean=false", "bootstrap.replicates=0", "features.threads=1",
)  # fmt: skip


def be_a_watcher(words: list[str], output: Path) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.argv[1:] = words
    runpy.run_module("eval_knn", run_name="__main__")


class Watcher(threading.Thread):
    """One watcher after the other looks at `run`; each is killed after some seconds, wherever it is."""

    def __init__(self, run: RunFolder, classes: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.watched = run
        self.words = [str(run.path), f"data.path={classes}", f"cache={classes.parent / 'watcher-cache'}", *KEYS]
        self.output = run.path.with_suffix(".watcher.txt")
        self.dice = random.Random(seed)
        self.kills = 0
        self.looks = 0
        self.problems: list[str] = []
        self.damaged: set[str] = set()  # checkpoints that the soak itself has damaged
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            if not self.watched.is_run():
                time.sleep(0.1)
                continue
            process = fork_server.start(be_a_watcher, self.words, self.output)
            until = time.monotonic() + self.dice.uniform(1, 25)
            while time.monotonic() < until and process.is_alive() and not self.over.is_set():
                self._look()
                time.sleep(0.2)
            if not process.is_alive():
                said = self.output.read_text(errors="replace")[-300:]
                self.problems.append(f"a watcher ended by itself with {process.exitcode}: {said}")
            process.kill()
            process.join()
            self.kills += 1

    def finish(self) -> None:
        """Let the last watcher score what is left, without a kill; then `best` must be what all evaluations say."""
        self.over.set()
        self.join()
        process = fork_server.start(be_a_watcher, [*self.words, "watcher.idle_seconds=2"], self.output)
        process.join(600)
        history = read_history(self.watched)
        selected = self.watched.selected()
        wanted = must_stay(history, RULE)
        if process.exitcode != 0 or selected is None or selected.name not in wanted:
            self.problems.append(f"at the end best is {selected and selected.name}, not one of {sorted(wanted)}")

    def _look(self) -> None:
        """`best` leads to a whole checkpoint, and what the evaluations call the best is still there."""
        self.looks += 1
        for _attempt in range(3):  # what changes while one looks is looked at again
            problem = self._problem()
            if problem is None:
                return
            time.sleep(0.05)
        self.problems.append(problem)

    def _problem(self) -> str | None:
        run = self.watched
        if run.best.is_symlink():
            name = run.best.readlink().name
            if name not in self.damaged and not is_whole_checkpoint(run.best.resolve()):
                return f"best points at {name}, which is not there"
        names = {step_name(step) for step in run.steps()}
        gone = must_stay(read_history(run), RULE) - names - self.damaged
        return f"the evaluations choose {sorted(gone)}, which is gone" if gone else None
