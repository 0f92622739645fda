"""One optimiser step over sharded parameters: accumulated, checked on all ranks, and then done by all or by none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from pretrain.data.loader import LoadedBatch
from pretrain.objective.objective import Objective
from pretrain.objective.targets import Centering
from pretrain.optimizer.clipping import clip_per_submodule
from pretrain.optimizer.parameter_groups import set_step_values
from pretrain.optimizer.schedules import StepValues
from pretrain.parallel.world import World


@dataclass(frozen=True)
class StepResult:
    """What a step did, as means over ranks."""

    losses: dict[str, float]  # what was optimised
    gradient_norms: dict[str, float]  # of each student submodule, before clipping
    skipped: bool  # non-finite somewhere: weights, optimiser, teacher and centers are as they were
    bad_here: bool  # this rank's own loss was non-finite
    flags: list[float]  # the sums over ranks of what was passed in


class Stepper:
    """Runs steps. Centers and teacher move once a step, however many parts it has."""

    def __init__(self, objective: Objective, optimizer: torch.optim.Optimizer, clip_norm: float, world: World) -> None:
        self.objective, self.optimizer, self.clip_norm, self.world = objective, optimizer, clip_norm, world
        self._centers = [m.center for m in objective.modules() if isinstance(m, Centering)]

    def run(self, parts: list[LoadedBatch], values: StepValues, flags: list[float]) -> StepResult:
        """A step over this rank's parts of the batch. `flags` are summed over ranks on the way."""
        set_step_values(self.optimizer, values)
        self.optimizer.zero_grad(set_to_none=True)
        before = [center.clone() for center in self._centers]
        moved = [torch.zeros_like(center) for center in self._centers]
        losses: dict[str, float] = {}
        for number, part in enumerate(parts):
            self._reduce_gradients(number == len(parts) - 1)
            for name, loss in self._part(part, values, len(parts)).items():
                losses[name] = losses.get(name, 0.0) + float(loss) / len(parts)
            for center, start, total in zip(self._centers, before, moved, strict=True):
                total.add_(center, alpha=1 / len(parts))
                center.copy_(start)  # every part sees the same center; the mean of their moves counts
        norms = {k: float(v) for k, v in clip_per_submodule(self.objective.student, self.clip_norm).items()}
        bad_here = not math.isfinite(losses["total"])
        bad = bad_here or not all(math.isfinite(norm) for norm in norms.values())
        sums = self.world.sum([float(bad), *losses.values(), *flags])
        skipped = sums[0] > 0
        if not skipped:
            self.optimizer.step()
            self.objective.update_teacher(values.momentum, values.backbone_momentum)
            for center, total in zip(self._centers, moved, strict=True):
                center.copy_(total)
        means = {name: total / self.world.size for name, total in zip(losses, sums[1:], strict=False)}
        return StepResult(means, norms, skipped, bad_here, sums[1 + len(losses) :])

    def _part(self, part: LoadedBatch, values: StepValues, parts: int) -> dict[str, Tensor]:
        batch = part.batch.to(self.world.device)
        losses: dict[str, Tensor] = self.objective(batch, values.teacher_temperature, None, values.ease)
        (losses["total"] / parts).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _reduce_gradients(self, now: bool) -> None:
        """Gradients travel between ranks with the last part only."""
        for module in self.objective.student.values():
            assert isinstance(module, FSDPModule)
            module.set_requires_gradient_sync(now)
