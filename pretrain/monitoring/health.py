"""Is the run well? Steps that must be skipped, and metrics that show a collapse."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_json
from panendofm.scoring.features.spectrum import rankme
from pretrain.data.batch import Batch
from pretrain.monitoring.regression_guard import RollbackCause
from pretrain.objective.objective import BACKBONE, Objective
from pretrain.optimizer.step import StepResult
from pretrain.parallel.collectives import gather_rows, sum_over_ranks, world_size
from pretrain.parallel.world import World
from pretrain.run.checkpoints import CheckpointStore


class SkippedSteps:
    """Counts the non-finite steps of a run, and ends it, or has it rolled back, when there are too many in a row.

    All ranks call every method alike.
    """

    def __init__(self, max_in_a_row: int, rolls_back: bool, store: CheckpointStore, world: World) -> None:
        self.max_in_a_row = max_in_a_row
        self.rolls_back = rolls_back
        self.store = store
        self.world = world
        self.total = self.in_a_row = 0

    @property
    def pending_at_most(self) -> int:
        """Steps that may be run before the next result is looked at: all of them may turn out to be non-finite."""
        return self.max_in_a_row - self.in_a_row

    def count(self, step: int, result: StepResult, keys: list[str]) -> RollbackCause | None:
        """Step by step, in order. `keys`: of this rank's samples."""
        if not result.skipped:
            self.in_a_row = 0
            return None
        self.total += 1
        self.in_a_row += 1
        own = None if result.own_loss_is_finite else {"rank": self.world.rank, "samples": keys}
        blamed = [report for report in self.world.gather(own) if report is not None]
        ranks = ", ".join(str(report["rank"]) for report in blamed) or "none (only the gradient)"
        if self.world.is_first:
            warn(f"step {step} is skipped on all ranks: non-finite loss or gradient; loss of ranks: {ranks}.")
        if self.in_a_row < self.max_in_a_row:
            return None
        self.store.wait()  # a save under way may end in peace
        path = self.store.run.non_finite
        if self.world.is_first:
            write_json(path, {"step": step, "skipped_in_a_row": self.in_a_row, "ranks": blamed})
        why = f"{self.in_a_row} steps in a row were non-finite, the last one is {step}"
        good: tuple[int, ...] = self.world.broadcast(self._good_steps(step) if self.world.is_first else None)
        if self.rolls_back and good:
            return RollbackCause(why, good)
        raise UserError(
            f"{why}; ranks and samples are in {path}; begin a new run.dir from an earlier checkpoint (init.weights) "
            "with a lower schedule.base_lr, or set regression_guard.non_finite=true."
        )

    def _good_steps(self, step: int) -> tuple[int, ...]:
        """Saved before the steps that failed, or since, if it scored highest: skipped steps change no weight."""
        saved, first = self.store.run.steps(), step + 1 - self.in_a_row
        chosen = self.store.retention.chosen_steps(saved)
        return tuple(sorted(one for one in saved if one <= first or one in chosen))


@torch.no_grad()
def collapse_metrics(objective: Objective, batch: Batch, temperature: float) -> dict[str, float]:
    """What a collapse shows in first, on the teacher's view of the step's global crops, over all ranks.

    rank_me: how many directions the cls features use, at most min(samples, width); 1 is a complete collapse. Beside it,
    where there are prototypes:
    teacher_entropy: mean entropy of the targets in nats; 0: one prototype each, ln K: no opinion.
    prototype_entropy: entropy of the mean target; 0: all samples share one prototype, ln K: all are used equally.
    """
    with objective.autocast(batch.global_crops.device):
        cls: Tensor = objective.teacher[BACKBONE](batch.global_crops).cls  # [2B, D]
    features = gather_rows(cls.float())  # [W·2B, D]
    metrics = {"rank_me": rankme(features.cpu().numpy()) if bool(features.isfinite().all()) else math.nan}
    if "dino_head" in objective.teacher:
        metrics |= _prototype_metrics(objective, cls, temperature)
    return metrics


def _prototype_metrics(objective: Objective, cls: Tensor, temperature: float) -> dict[str, float]:
    with objective.autocast(cls.device):
        scores: Tensor = objective.teacher["dino_head"](cls)  # [2B, K]
    targets = torch.softmax(scores.float() / temperature, dim=-1)  # [2B, K]
    # Means over ranks, which hold equally many rows: all rows of 131,072 prototypes would be gigabytes.
    entropy = sum_over_ranks(_entropy(targets).mean()) / world_size()
    mean_target = sum_over_ranks(targets.mean(dim=0)) / world_size()  # [K]
    metrics = {
        "teacher_entropy": float(entropy),
        "prototype_entropy": float(_entropy(mean_target)),
    }
    for name in ("dino_targets", "ibot_targets"):
        center = getattr(getattr(objective, name), "center", None)
        if center is not None:
            metrics[f"{name}_center_norm"] = float(center.norm())
    return metrics


def _entropy(distribution: Tensor) -> Tensor:
    return -(distribution * distribution.clamp_min(1e-30).log()).sum(dim=-1)
