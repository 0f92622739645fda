"""Is it getting better? kNN on the teacher while it trains: the best checkpoint, early stopping, a floor.

Every decision is a function of the evaluations in `RUN/eval`, so a resumed run decides as the uninterrupted one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from backbone import Preprocessing
from eval_knn import EvalConfig, Evaluation, Evaluator, read_history, record, should_stop
from pretrain.world import World
from runtime.config import option
from runtime.console import say
from runtime.errors import UserError


@dataclass
class MonitorConfig:
    """kNN evaluation during training."""

    mode: Literal["off", "inline", "watch"] = option(
        "inline: training pauses and its ranks evaluate. watch: `python -m eval_knn --watch RUN` runs beside it, and "
        "training only reads its results.",
        "off",
    )
    every_steps: int = option("Steps between two evaluations; each has its checkpoint.", 1000)
    early_stopping: bool = option("End the run when evaluation.selection's patience is used up.", True)
    floor: float | None = option("How far the metric may fall below that of step 0; null: as far as it likes.", None)
    below_floor: Literal["stop", "lower_lr"] = option("What happens below the floor.", "stop")
    lower_lr_factor: float = option("Each evaluation below the floor multiplies the learning rate by this.", 0.5)
    evaluation: EvalConfig = option("Data, split and selection, as for `python -m eval_knn`.", EvalConfig())

    def check(self) -> None:
        if self.every_steps < 1 or not 0 < self.lower_lr_factor <= 1 or (self.floor is not None and self.floor < 0):
            raise UserError(
                "monitor: every_steps must be at least 1, lower_lr_factor in 0…1, floor must not be negative."
            )


@dataclass(frozen=True)
class Verdict:
    """What the evaluations up to a step mean for the steps after it."""

    stop: bool = False
    why: str = ""
    lr_factor: float = 1.0


class Monitor:
    """The evaluations of one run. All ranks call every method alike."""

    def __init__(self, config: MonitorConfig, run: Path, world: World) -> None:
        self.config, self.run, self.world = config, run, world
        self._evaluator = Evaluator(config.evaluation, world.control) if config.mode == "inline" else None

    def due(self, step: int, last_step: int) -> bool:
        """Whether the model that has done `step` steps is evaluated here: at first, every so often, and at last."""
        return self._evaluator is not None and (step % self.config.every_steps == 0 or step == last_step)

    def evaluate(self, step: int, teacher: nn.Module, preprocessing: Preprocessing, certificate: Any) -> dict[str, Any]:
        """The evaluation of a step as a document; taken from the run's folder when it is there."""
        assert self._evaluator is not None
        result = self._evaluator.score_model(teacher, f"step_{step:07d}", step, preprocessing, certificate)
        return result.document

    def record(self, document: dict[str, Any]) -> None:
        """Store an evaluation and point `best` at the chosen checkpoint; its own must be complete."""
        if self.world.is_first:
            selection = self.config.evaluation.selection
            choice, _ = record(self.run, document, selection)
            value = {e.checkpoint: e for e in read_history(self.run)}[document["checkpoint"]].values[selection.metric]
            best = "" if choice is None else f"; best is {choice.evaluation.checkpoint}"
            say(f"step {document['step']:,}: kNN {selection.metric} {value:.4f}{best}")
        self.world.first_says(None)

    def figures(self, step: int) -> dict[str, float | None] | None:
        """What was found at a step, if it was evaluated."""
        found = self.world.first_says(self._history(step) if self.world.is_first else None)
        return found[-1].values if found and found[-1].step == step else None

    def verdict(self, step: int) -> Verdict:
        """What the evaluations up to `step` ask for."""
        if self.config.mode == "off":
            return Verdict()
        answer: Verdict = self.world.first_says(self._judge(self._history(step)) if self.world.is_first else None)
        return answer

    def _history(self, step: int) -> list[Evaluation]:
        return [e for e in read_history(self.run) if e.step is not None and e.step <= step]

    def _judge(self, history: list[Evaluation]) -> Verdict:
        config, selection = self.config, self.config.evaluation.selection
        if not history:
            return Verdict()
        lr_factor = 1.0
        if config.floor is not None:
            values = [_number(e.values[selection.metric]) for e in history]
            low = [value < values[0] - config.floor for value in values]
            if config.below_floor == "lower_lr":
                lr_factor = config.lower_lr_factor ** sum(low)
            elif low[-1]:
                why = f"{selection.metric} fell to {values[-1]:.4f}, more than {config.floor} below {values[0]:.4f}"
                return Verdict(True, f"{why} at the start")
        stop = should_stop(history, selection)
        return Verdict(config.early_stopping and stop.stop, stop.why, lr_factor)


def _number(value: float | None) -> float:
    """An undefined value counts as the worst."""
    return float("-inf") if value is None or value != value else value
