"""Rolling back to an earlier checkpoint with a lower learning rate, in a way that can be interrupted anywhere.

The run's record lists every rollback. An entry is written first, then carried out: what the steps after the checkpoint
have left behind is kept apart, and the entry is marked as done. A run that is killed in between carries it out when it
is started again.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

from eval_knn import SelectionConfig, claim, read_history, update_best
from panendofm.records.evaluation import evaluated_checkpoints, evaluation_paths, images_folder
from panendofm.records.metrics import metric_lines, read_metrics
from panendofm.records.run import Rollback, RunFolder, patch_image, step_name, step_of
from panendofm.runtime.console import warn
from panendofm.runtime.files import make_directory, write_bytes
from pretrain.parallel.world import World
from pretrain.run.retention import remove_checkpoint

# How often all ranks ask whether a watcher has let go of a checkpoint that is to be undone.
_POLL_SECONDS = 1.0


class Rollbacks:
    """Those of one run. All ranks call every method alike."""

    def __init__(self, run: RunFolder, world: World, selection: SelectionConfig) -> None:
        self.run = run
        self.world = world
        self.selection = selection
        self.entries: list[Rollback] = world.broadcast(run.read_rollbacks() if world.is_first else None)
        if self.entries and not self.entries[-1].done:
            self._carry_out()

    def lr_factor(self, step: int) -> float:
        """What the learning rate of a step is multiplied by: a function of the step and the recorded rollbacks."""
        factors = [entry.lr_factor for entry in self.entries if entry.to_step <= step]
        return factors[-1] if factors else 1.0

    def roll_back(self, why: str, from_step: int, to_step: int, lr_factor: float) -> None:
        """Record it, then undo what was done since `to_step`; its checkpoint is then the newest."""
        now: float = self.world.broadcast(time.time())
        self.entries.append(Rollback(len(self.entries) + 1, why, from_step, to_step, lr_factor, now))
        self._write()
        self._carry_out()

    def _carry_out(self) -> None:
        """Safe to repeat until it is marked as done; only then are metrics cut off, by whoever opens them next."""
        entry = self.entries[-1]
        if self.world.is_first:
            self._keep_metrics(entry)
        held = self._undo_steps(entry)
        announced = False
        while held:
            if self.world.is_first and not announced:
                warn(f"waiting for the watcher that evaluates {held[0]}, which is to be rolled back.")
                announced = True
            # In short rounds and not in one call: a collective that waits longer than run.timeout_seconds fails.
            time.sleep(_POLL_SECONDS)
            held = self._undo_steps(entry)
        if self.world.is_first and read_history(self.run):
            update_best(self.run, self.selection)
        self.entries[-1] = replace(entry, done=True)
        self._write()
        self.world.broadcast(None)

    def _undo_steps(self, entry: Rollback) -> list[str]:
        """Take evaluations and checkpoints after the entry's step away; the names of those that a watcher holds."""
        held = []
        if self.world.is_first:
            evaluated = {step for name in evaluated_checkpoints(self.run) if (step := step_of(name)) is not None}
            for step in sorted(step for step in evaluated | set(self.run.steps()) if step > entry.to_step):
                with claim(self.run, step_name(step)) as is_ours:
                    if is_ours:
                        self._undo(step, entry)
                    else:
                        held.append(step_name(step))
        names: list[str] = self.world.broadcast(held)
        return names

    def _undo(self, step: int, entry: Rollback) -> None:
        checkpoint = self.run.checkpoint(step)
        for result in evaluation_paths(self.run, step_name(step)):
            kept = self.run.rolled_back(entry.number) / result.relative_to(self.run.evaluations)
            make_directory(kept.parent)
            result.rename(kept)
        if checkpoint.exists():
            remove_checkpoint(checkpoint)
        # What was drawn of it would be taken for the checkpoint that gets this name next.
        patch_image(self.run, step).unlink(missing_ok=True)
        shutil.rmtree(images_folder(self.run.evaluations, step_name(step)), ignore_errors=True)

    def _keep_metrics(self, entry: Rollback) -> None:
        kept = make_directory(self.run.rolled_back(entry.number)) / self.run.metrics.name
        if self.run.metrics.exists():
            undone = [line for line in read_metrics(self.run.metrics) if line["step"] >= entry.to_step]
            write_bytes(kept, metric_lines(undone))

    def _write(self) -> None:
        if self.world.is_first:
            self.run.write_rollbacks(self.entries)
