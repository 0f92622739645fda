"""Going back to an earlier checkpoint with a lower learning rate, so that it can be interrupted anywhere.

`RUN/roll_backs.json` lists every time. An entry is written first, then carried out: what the steps after the checkpoint
have left behind is kept apart in `RUN/rolled_back/NUMBER/`, and the entry is marked as done. A run that is killed in
between carries it out when it is started again.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eval_knn import SelectionConfig, claim, read_history, update_best
from pretrain.parallel.world import World
from pretrain.run.checkpoints import CheckpointStore
from records.evaluation import evaluation_path
from records.metrics import metric_lines, read_metrics
from records.run import RunFolder
from runtime.files import make_directory, read_json, write_bytes, write_json

ROLL_BACKS_NAME = "roll_backs.json"
FORMAT = 1


@dataclass(frozen=True)
class RollBack:
    """One time that a run went back."""

    number: int  # from 1
    why: str
    from_step: int
    to_step: int
    lr_factor: float  # of the recipe's learning rate, from `to_step` on
    time: float
    done: bool = False


class RollBacks:
    """Those of one run. All ranks call every method alike."""

    def __init__(self, run: Path, world: World, store: CheckpointStore, selection: SelectionConfig) -> None:
        self.run, self.world, self.store, self.selection = run, world, store, selection
        self.path = run / ROLL_BACKS_NAME
        self.entries: list[RollBack] = world.first_says(self._read() if world.is_first else None)
        if self.entries and not self.entries[-1].done:
            self._carry_out()

    def lr_factor(self, step: int) -> float:
        """What the learning rate of a step is multiplied by: a function of the step and the recorded roll-backs."""
        factors = [entry.lr_factor for entry in self.entries if entry.to_step <= step]
        return factors[-1] if factors else 1.0

    def go_back(self, why: str, from_step: int, to_step: int, lr_factor: float) -> None:
        """Record it, then undo what was done since `to_step`; its checkpoint is then the newest."""
        now: float = self.world.first_says(time.time())
        entry = RollBack(len(self.entries) + 1, why, from_step, to_step, lr_factor, now)
        self.entries.append(entry)
        self._write()
        self._carry_out()

    def _carry_out(self) -> None:
        """Safe to repeat until it is marked as done; only then are metrics cut off, by whoever opens them next."""
        entry = self.entries[-1]
        if self.world.is_first:
            apart = make_directory(self.run / "rolled_back" / str(entry.number))
            self._keep_metrics(entry.to_step, apart)
            run = RunFolder(self.run)
            steps = {e.step for e in read_history(run) if e.step is not None} | set(self.store.steps())
            for step in sorted(step for step in steps if step > entry.to_step):
                name = f"step_{step:07d}"
                with claim(run, name, wait=True):  # a watcher that evaluates it just now may finish
                    result = evaluation_path(run, name)
                    if result.exists():
                        result.rename(apart / result.name)
                    self.store.remove(step)
            if read_history(run):
                update_best(run, self.selection)
        self.entries[-1] = replace(entry, done=True)
        self._write()
        self.world.first_says(None)

    def _keep_metrics(self, first_step: int, apart: Path) -> None:
        metrics = RunFolder(self.run).metrics
        if metrics.exists():
            undone = [line for line in read_metrics(metrics) if line["step"] >= first_step]
            write_bytes(apart / metrics.name, metric_lines(undone))

    def _read(self) -> list[RollBack]:
        if not self.path.exists():
            return []
        return [RollBack(**entry) for entry in read_json(self.path)["roll_backs"]]

    def _write(self) -> None:
        if self.world.is_first:
            write_json(self.path, {"format": FORMAT, "roll_backs": [asdict(entry) for entry in self.entries]})
