"""Is it getting better? kNN on the teacher while it trains: the best checkpoint, early stopping, the regression guard.

Every decision is a function of the run's evaluations, so a resumed run decides as the uninterrupted one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from eval_knn import Evaluation, Evaluator, read_history, record, should_stop, update_best
from panendofm.backbone import Preprocessing, Tokens
from panendofm.records.evaluation import KnnDocument
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import Certificate
from panendofm.runtime.console import say, warn
from panendofm.scoring.features.spectrum import common_share
from pretrain.config import MonitorConfig
from pretrain.monitoring.regression_guard import RollbackCause, find_regression
from pretrain.objective.objective import Objective
from pretrain.parallel.world import World

# Of the start's features; 0.99 was measured where the anchor held nothing (docs/warm-start.md).
_COMMON_SHARE = 0.95


@dataclass(frozen=True)
class Verdict:
    """What the evaluations up to a step mean for the steps after it."""

    stop: bool = False
    why: str = ""
    rollback: RollbackCause | None = None  # the run must be rolled back, or stop
    last_good_step: int | None = None  # the newest evaluated one, where the regression guard is on

    @property
    def continues(self) -> bool:
        return not self.stop and self.rollback is None


class Teacher(nn.Module):
    """The teacher's backbone as it computes in training: its forward passes run within the objective's autocast.

    Attention that knows half precision only could not run otherwise, for its parameters are fp32.
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.backbone = objective.teacher["backbone"]
        self._autocast = objective.autocast

    def forward(self, images: Tensor) -> Tokens:
        with self._autocast(images.device):
            tokens: Tokens = self.backbone(images)
        return tokens


def _warn_of_common_direction(share: float, crop_px: int) -> None:
    if share > _COMMON_SHARE:
        warn(
            f"{share:.1%} of the length of the start's features is common to all pictures: cosines, and with them kNN, "
            f"KoLeo and the anchor, see little else. 'panendofm backbone recenter WEIGHTS SHARDS --to FILE --crop-px "
            f"{crop_px}' takes it out; compare both by eval_knn and begin with the better one."
        )


class Monitor:
    """The evaluations of one run. All ranks call every method alike.

    `guard_margin`: how far below the start's score a run may fall; None: as far as it likes. Evaluations before
    `patience_from_step` don't use up the patience of early stopping: a backbone that is frozen can't get better.
    `from_weights`: the run began with weights that know something.
    """

    def __init__(
        self,
        config: MonitorConfig,
        run: RunFolder,
        world: World,
        guard_margin: float | None = None,
        patience_from_step: int = 0,
        from_weights: bool = False,
    ) -> None:
        self.config, self.run, self.world = config, run, world
        self.guard_margin, self.patience_from_step = guard_margin, patience_from_step
        self.from_weights = from_weights
        config.evaluation.features.refuse_choice("training")
        self._evaluator = Evaluator(config.evaluation, world.control) if config.mode == "inline" else None

    def due(self, step: int, last_step: int) -> bool:
        """Whether the model that has done `step` steps is evaluated here: at first, every so often, and at last."""
        return self._evaluator is not None and (step % self.config.every_steps == 0 or step == last_step)

    def evaluate(
        self, step: int, objective: Objective, preprocessing: Preprocessing, certificate: Certificate | None
    ) -> KnnDocument:
        """The evaluation of a step's teacher."""
        assert self._evaluator is not None
        teacher = Teacher(objective)
        result = self._evaluator.score_model(teacher, step_name(step), step, preprocessing, certificate)
        if step == 0 and self.from_weights and self.world.is_first:
            _warn_of_common_direction(common_share(result.features), preprocessing.crop_px)
        return result.document

    def record(self, document: KnnDocument) -> None:
        """Store an evaluation and point `best` at the chosen checkpoint; its own must be complete."""
        if self.world.is_first:
            selection = self.config.evaluation.selection
            choice, _ = record(self.run, document, selection)
            value = document.values[selection.metric]
            best = "" if choice is None else f"; best is {choice.evaluation.checkpoint}"
            say(f"step {document.step:,}: kNN {selection.metric} {value:.4f}{best}")
        self.world.broadcast(None)

    def update_best(self) -> None:
        """Point `best` at what the evaluations say: a run that was killed before it did has nothing else to do it."""
        if self.config.mode != "none" and self.world.is_first and read_history(self.run):
            update_best(self.run, self.config.evaluation.selection)

    def figures(self, step: int) -> dict[str, float | None] | None:
        """The scores of a step, if it was evaluated."""
        history = self.world.broadcast(self._history(step) if self.world.is_first else None)
        return history[-1].values if history and history[-1].step == step else None

    def verdict(self, step: int) -> Verdict:
        """What the evaluations up to `step` ask for."""
        if self.config.mode == "none":
            return Verdict()
        answer: Verdict = self.world.broadcast(self._verdict_on(self._history(step)) if self.world.is_first else None)
        return answer

    def _history(self, step: int) -> list[Evaluation]:
        return [e for e in read_history(self.run) if e.step is not None and e.step <= step]

    def _verdict_on(self, history: list[Evaluation]) -> Verdict:
        selection, last_good = self.config.evaluation.selection, None
        if self.guard_margin is not None and history:
            cause = find_regression(history, self.guard_margin, selection)
            if cause is not None:
                return Verdict(rollback=cause, last_good_step=cause.good_steps[-1])
            last_good = history[-1].step
        stop = should_stop(history, selection, self.patience_from_step)
        return Verdict(self.config.early_stopping and stop.stop, stop.why, None, last_good)
