"""Is it getting better? kNN on the teacher while it trains: the best checkpoint, early stopping, and the guard.

Every decision is a function of the evaluations in `RUN/eval`, so a resumed run decides as the uninterrupted one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import nn

from backbone import Preprocessing
from eval_knn import EvalConfig, Evaluation, Evaluator, read_history, record, should_stop
from pretrain.judging.regression_guard import Trouble, trouble_in
from pretrain.parallel.world import World
from records.evaluation import KnnDocument
from records.run import RunFolder
from records.shards import Certificate
from runtime.config import option
from runtime.console import say
from runtime.errors import UserError


@dataclass
class MonitorConfig:
    """kNN evaluation during training."""

    mode: Literal["none", "inline", "watch"] = option(
        "inline: training pauses and its ranks evaluate. watch: `python -m eval_knn --watch RUN` runs beside it, and "
        "training only reads its results.",
        "none",
    )
    every_steps: int = option("Steps between two evaluations; each has its checkpoint.", 1000)
    early_stopping: bool = option("End the run when evaluation.selection's patience is used up.", True)
    evaluation: EvalConfig = option("Data, split and selection, as for `python -m eval_knn`.", EvalConfig())

    def check(self) -> None:
        if self.every_steps < 1:
            raise UserError("monitor.every_steps must be at least 1.")


@dataclass(frozen=True)
class Verdict:
    """What the evaluations up to a step mean for the steps after it."""

    stop: bool = False
    why: str = ""
    trouble: Trouble | None = None  # the run must go back, or stop
    last_good_step: int | None = None  # the newest evaluated one, where the guard is on

    @property
    def goes_on(self) -> bool:
        return not self.stop and self.trouble is None


class Monitor:
    """The evaluations of one run. All ranks call every method alike.

    `guard_margin`: how far below the start's score a run may fall; None: as far as it likes. Evaluations before
    `patience_from_step` don't use up the patience of early stopping: a backbone that is frozen can't get better.
    """

    def __init__(
        self,
        config: MonitorConfig,
        run: Path,
        world: World,
        guard_margin: float | None = None,
        patience_from_step: int = 0,
    ) -> None:
        self.config, self.run, self.world = config, run, world
        self.guard_margin, self.patience_from_step = guard_margin, patience_from_step
        self._evaluator = Evaluator(config.evaluation, world.control) if config.mode == "inline" else None

    def due(self, step: int, last_step: int) -> bool:
        """Whether the model that has done `step` steps is evaluated here: at first, every so often, and at last."""
        return self._evaluator is not None and (step % self.config.every_steps == 0 or step == last_step)

    def evaluate(
        self, step: int, teacher: nn.Module, preprocessing: Preprocessing, certificate: Certificate | None
    ) -> KnnDocument:
        """The evaluation of a step as a document; taken from the run's folder when it is there."""
        assert self._evaluator is not None
        result = self._evaluator.score_model(teacher, f"step_{step:07d}", step, preprocessing, certificate)
        return result.document

    def record(self, document: KnnDocument) -> None:
        """Store an evaluation and point `best` at the chosen checkpoint; its own must be complete."""
        if self.world.is_first:
            selection = self.config.evaluation.selection
            choice, _ = record(RunFolder(self.run), document, selection)
            value = document.values[selection.metric]
            best = "" if choice is None else f"; best is {choice.evaluation.checkpoint}"
            say(f"step {document.step:,}: kNN {selection.metric} {value:.4f}{best}")
        self.world.first_says(None)

    def figures(self, step: int) -> dict[str, float | None] | None:
        """What was found at a step, if it was evaluated."""
        found = self.world.first_says(self._history(step) if self.world.is_first else None)
        return found[-1].values if found and found[-1].step == step else None

    def verdict(self, step: int) -> Verdict:
        """What the evaluations up to `step` ask for."""
        if self.config.mode == "none":
            return Verdict()
        answer: Verdict = self.world.first_says(self._judge(self._history(step)) if self.world.is_first else None)
        return answer

    def _history(self, step: int) -> list[Evaluation]:
        return [e for e in read_history(RunFolder(self.run)) if e.step is not None and e.step <= step]

    def _judge(self, history: list[Evaluation]) -> Verdict:
        selection, last_good = self.config.evaluation.selection, None
        if self.guard_margin is not None and history:
            trouble = trouble_in(history, self.guard_margin, selection)
            if trouble is not None:
                return Verdict(trouble=trouble, last_good_step=trouble.good_steps[-1])
            last_good = history[-1].step
        patient = [e for e in history if e.step is not None and e.step >= self.patience_from_step]
        stop = should_stop(patient, selection)
        return Verdict(self.config.early_stopping and stop.stop, stop.why, None, last_good)
