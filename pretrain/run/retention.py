"""Which checkpoints of a run stay on the disk: the newest, and those that something still waits for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_knn import SelectionConfig, claim, finish_update, must_stay, read_history, recorded_rule
from panendofm.records.evaluation import evaluated_checkpoints, evaluation_path, read_selection
from panendofm.records.run import RunFolder, step_name
from panendofm.runtime.console import warn
from panendofm.runtime.files import TEMPORARY_MARK
from pretrain.config import CheckpointConfig, PretrainConfig


class Retention:
    """Removes old checkpoints of one run. First rank only.

    `selection`: by which the run's own evaluations are compared; None: it makes none, and those of others are compared
    by the rule that they recorded. `watched`: another process scores the checkpoints as they appear.
    """

    def __init__(
        self, run: RunFolder, config: CheckpointConfig, selection: SelectionConfig | None = None, watched: bool = False
    ) -> None:
        self.run = run
        self.config = config
        self.selection = selection
        self.watched = watched
        self.last_good_step: int | None = None  # what a rollback would go to: kept, however old it is

    def protected_steps(self, steps: list[int]) -> set[int]:
        """Those of `steps` (newest first) whose checkpoints stay. Whatever needs a checkpoint says so here."""
        protected = set(steps[: self.config.keep_last])
        if self.config.keep_every_steps is not None:
            protected |= {step for step in steps if step % self.config.keep_every_steps == 0}
        protected |= self.chosen_steps(steps) | {step for step in steps if step == self.last_good_step}
        return protected | self._unscored([step for step in steps if step not in protected])

    def chosen_steps(self, steps: list[int]) -> set[int]:
        """Those of `steps` that have the highest score ever or are the choice: neither goes, whatever happens."""
        names = {self.run.best.resolve().name}
        if (chosen := read_selection(self.run)) is not None and chosen.highest is not None:
            names.add(chosen.highest)
        rule = self._rule()
        # By the evaluations themselves: what was recorded last may be older than they are.
        names |= evaluated_checkpoints(self.run) if rule is None else must_stay(read_history(self.run), rule)
        return {step for step in steps if step_name(step) in names}

    def _rule(self) -> SelectionConfig | None:
        """By which evaluations are compared: the run's own rule, else that of whoever evaluates it; None: not known."""
        return self.selection or recorded_rule(self.run)

    def _unscored(self, steps: list[int]) -> set[int]:
        """Those that a watcher has still to score, as many as may wait."""
        if not self.watched:
            return set()
        unscored = [step for step in steps if not evaluation_path(self.run, step_name(step)).is_file()]
        # All others are compared with the start, so it waits however long it takes.
        waiting = [step for step in unscored if step > 0]
        if len(waiting) > self.config.keep_unscored:
            warn(
                f"{len(waiting)} checkpoints wait for their score ({step_name(waiting[-1])} to "
                f"{step_name(waiting[0])}), more than checkpoint.keep_unscored={self.config.keep_unscored}: the oldest "
                f"go unscored; start another watcher (python -m eval_knn {self.run.path} watch=true), or raise the key."
            )
        return {*waiting[: self.config.keep_unscored], *(step for step in unscored if step == 0)}

    def remove_old(self) -> None:
        """Remove what nothing waits for. What a watcher holds at this moment stays until the next time."""
        rule = self._rule()
        if rule is not None and self.run.claims.is_dir():
            finish_update(self.run, rule)
        with self._claim("selection", wait=True):  # `best` does not move to a checkpoint that is about to go
            steps = self.run.steps()
            protected = self.protected_steps(steps)
            for step in steps:
                if step in protected:
                    continue
                with self._claim(step_name(step)) as is_ours:
                    if is_ours:
                        remove_checkpoint(self.run.checkpoint(step))

    @contextmanager
    def _claim(self, name: str, wait: bool = False) -> Iterator[bool]:
        if not self.run.claims.is_dir():  # nobody has ever evaluated anything here
            yield True
            return
        with claim(self.run, name, wait) as is_ours:
            yield is_ours


def most_checkpoints(config: PretrainConfig, total_steps: int | None) -> int:
    """How many checkpoints of a run lie on the disk at one time, at most: what `protected_steps` keeps, and a new one.

    Without the number of steps those of `keep_every_steps` can't be counted and are left out.
    """
    own = config.checkpoint
    being_written = 1
    chosen_and_highest = 2
    kept_for_good = 0
    if own.keep_every_steps is not None and total_steps is not None:
        kept_for_good = total_steps // own.keep_every_steps + 1
    most = own.keep_last + being_written + chosen_and_highest + kept_for_good
    if config.regression_guard.is_on(config.starts_warm):
        most += 1  # the one to roll back to
    if config.monitor.mode == "watch":
        start = 0 if kept_for_good else 1
        most += own.keep_unscored + start
    return most


def remove_checkpoint(path: Path) -> None:
    """Remove a folder that others may be looking for: first its name, then what is in it."""
    hidden = path.with_name(f".{path.name}{TEMPORARY_MARK}removed")
    path.rename(hidden)
    shutil.rmtree(hidden)
