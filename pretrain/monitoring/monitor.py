"""Is it getting better? kNN on the teacher while it trains: the best checkpoint, early stopping, the regression guard.

Every decision is a function of the run's evaluations, so a resumed run decides as the uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from eval_knn import (
    Evaluation,
    SetsEvaluator,
    read_history,
    record,
    should_stop,
    update_best,
)
from panendofm.backbone import Preprocessing, Tokens
from panendofm.records.evaluation import KnnDocument, read_evaluations
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import Certificate
from panendofm.runtime.console import say, warn
from panendofm.scoring.features.spectrum import common_share
from pretrain.config import MonitorConfig
from pretrain.monitoring.regression_guard import RollbackCause, find_regression, good_steps
from pretrain.objective.objective import BACKBONE, Objective, part_name
from pretrain.parallel.world import World

# Of the start's features; 0.99 was measured where the anchor held nothing (docs/explanation/warm-start.md).
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

    def __init__(self, objective: Objective, student: str = "") -> None:
        super().__init__()
        self.backbone = objective.teacher[part_name(student, BACKBONE)]
        self._autocast = objective.autocast

    def forward(self, images: Tensor) -> Tokens:
        with self._autocast(images.device):
            tokens: Tokens = self.backbone(images)
        return tokens


def _warn_of_common_direction(share: float, crop_px: int) -> None:
    if share > _COMMON_SHARE:
        warn(
            f"{share:.1%} of the length of the start's features is common to all images: cosines, and with them kNN, "
            f"KoLeo and the anchor, see little else. 'panendofm backbone recenter WEIGHTS SHARDS out=FILE crop_px="
            f"{crop_px}' takes it out; compare both by eval_knn and begin with the better one."
        )


class Monitor:
    """The evaluations of one run. All ranks call every method alike.

    `guard_margin`: how far below the start's score a run may fall; None: as far as it likes. Evaluations before
    `patience_from_step` don't use up the patience of early stopping: a backbone that is frozen can't get better.
    `from_weights`: the run began with weights that know something. `student`: whose moving average is evaluated; the
    first has no name.
    """

    def __init__(
        self,
        config: MonitorConfig,
        run: RunFolder,
        world: World,
        guard_margin: float | None = None,
        patience_from_step: int = 0,
        from_weights: bool = False,
        student: str = "",
    ) -> None:
        self.config = config
        self.run = run
        self.world = world
        self.guard_margin = guard_margin
        self.patience_from_step = patience_from_step
        self.from_weights = from_weights
        self.student = student
        self.sets = config.sets
        self.selection = self.sets.selection
        self._evaluator = SetsEvaluator(run, self.sets, world.control) if config.mode == "inline" else None

    def due(self, step: int, last_step: int) -> bool:
        """Whether the model that has done `step` steps is evaluated here: at first, every so often, and at last."""
        return self._evaluator is not None and (step % self.config.every_steps == 0 or step == last_step)

    def evaluate(
        self, step: int, objective: Objective, preprocessing: Preprocessing, certificate: Certificate | None
    ) -> list[KnnDocument]:
        """The evaluation of a step's teacher on every set, the one that selects first."""
        assert self._evaluator is not None
        teacher = Teacher(objective, self.student)
        scored = self._evaluator.score(
            lambda evaluator: evaluator.score_model(teacher, step_name(step), step, preprocessing, certificate)
        )
        if step == 0 and self.from_weights and self.world.is_first:
            _warn_of_common_direction(common_share(scored.selecting.features), preprocessing.crop_px)
        return scored.documents

    def record(self, documents: Sequence[KnnDocument]) -> None:
        """Store an evaluation and point `best` at the chosen checkpoint; its own must be complete."""
        if self.world.is_first:
            document, *witnesses = documents
            choice, _ = record(self.run, document, self.selection, witnesses)
            value = document.values[self.selection.metric]
            best = "" if choice is None else f"; best is {choice.evaluation.checkpoint}"
            of_student = f" of {self.student}" if self.student else ""
            say(f"step {document.step:,}: kNN{of_student} {self.selection.metric} {value:.4f}{best}")
            for witness in witnesses:
                metric = self.sets.witnesses[witness.evaluation_set].selection.metric
                say(f"step {witness.step:,}: {witness.evaluation_set} {metric} {witness.values[metric]:.4f}")
        self.world.broadcast(None)

    def update_best(self) -> None:
        """Point `best` at what the evaluations say: a run that was killed before it did has nothing else to do it."""
        if self.config.mode != "none" and self.world.is_first and read_history(self.run):
            update_best(self.run, self.selection)

    def metrics(self, step: int) -> dict[str, Any] | None:
        """What is logged of a step's evaluation, if it was made."""
        found: dict[str, Any] | None = self.world.broadcast(self._metrics(step) if self.world.is_first else None)
        return found

    def _metrics(self, step: int) -> dict[str, Any] | None:
        document = _of_step(read_evaluations(self.run), step)
        if document is None:
            return None
        found = {name: _of_step(read_evaluations(self.run, name), step) for name in self.sets.witnesses}
        witnesses = {name: one.values for name, one in found.items() if one is not None}
        return {"knn": document.values, **({"witnesses": witnesses} if witnesses else {})}

    def verdict(self, step: int) -> Verdict:
        """What the evaluations up to `step` ask for."""
        if self.config.mode == "none":
            return Verdict()
        answer: Verdict = self.world.broadcast(self._verdict_on(self._history(step)) if self.world.is_first else None)
        return answer

    def _history(self, step: int) -> list[Evaluation]:
        return [e for e in read_history(self.run) if e.step is not None and e.step <= step]

    def _verdict_on(self, history: list[Evaluation]) -> Verdict:
        last_good = None
        if self.guard_margin is not None and history:
            cause = find_regression(history, self.guard_margin, self.selection)
            if cause is not None:
                return Verdict(rollback=cause, last_good_step=cause.good_steps[-1])
            last_good = max(good_steps(history, self.guard_margin, self.selection), default=None)
        stop = should_stop(history, self.selection, self.patience_from_step)
        return Verdict(self.config.early_stopping and stop.stop, stop.why, None, last_good)


def _of_step(documents: Sequence[KnnDocument], step: int) -> KnnDocument | None:
    return next((document for document in documents if document.step == step), None)
