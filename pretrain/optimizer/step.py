"""One optimiser step over sharded parameters: accumulated, checked on all ranks, and then done by all or by none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from pretrain.data.loader import LoadedBatch
from pretrain.objective.drop_path import DropPath
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
    own_loss_is_finite: bool  # this rank's
    sums: list[float]  # over ranks, of what was passed in


class Stepper:
    """Runs steps. Centers and teacher move once a step, however many parts it has."""

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        clip_norm: float,
        drop_path: DropPath,
        world: World,
    ) -> None:
        self.objective, self.optimizer, self.clip_norm = objective, optimizer, clip_norm
        self.drop_path, self.world = drop_path, world
        self._centers = [m.center for m in objective.modules() if isinstance(m, Centering)]

    def run(self, parts: list[LoadedBatch], values: StepValues, to_sum: list[float]) -> StepResult:
        """A step over this rank's parts of the batch. `to_sum` is summed over ranks on the way."""
        set_step_values(self.optimizer, values)
        self.optimizer.zero_grad(set_to_none=True)
        before = [center.clone() for center in self._centers]
        moved = [torch.zeros_like(center) for center in self._centers]
        losses_of_parts = []
        for number, part in enumerate(parts):
            self._reduce_gradients(number == len(parts) - 1)
            losses_of_parts.append(self._part(part, values, len(parts)))
            for center, start, total in zip(self._centers, before, moved, strict=True):
                total.add_(center, alpha=1 / len(parts))
                center.copy_(start)  # every part sees the same center; the mean of their moves counts
        losses, norms = _read(losses_of_parts, clip_per_submodule(self.objective.student, self.clip_norm))
        own_loss_is_finite = math.isfinite(losses["total"])
        finite = own_loss_is_finite and all(math.isfinite(norm) for norm in norms.values())
        sums = self.world.sum([float(not finite), *losses.values(), *to_sum])
        skipped = sums[0] > 0
        if not skipped:
            self.optimizer.step()
            self.objective.update_teacher(values.momentum, values.backbone_momentum)
            for center, total in zip(self._centers, moved, strict=True):
                center.copy_(total)
        means = {name: total / self.world.size for name, total in zip(losses, sums[1:], strict=False)}
        return StepResult(means, norms, skipped, own_loss_is_finite, sums[1 + len(losses) :])

    def _part(self, part: LoadedBatch, values: StepValues, parts: int) -> dict[str, Tensor]:
        device, ramp = self.world.device, values.ramp
        drop_path = self.drop_path.draw(ramp.drop_path, part.step, part.microgroups)
        if drop_path is not None:
            drop_path = [chosen.to(device, non_blocking=True) for chosen in drop_path]
        losses: dict[str, Tensor] = self.objective(part.batch.to(device), values.teacher_temperature, ramp, drop_path)
        (losses["total"] / parts).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _reduce_gradients(self, now: bool) -> None:
        """Gradients travel between ranks with the last part only."""
        for module in self.objective.student.values():
            assert isinstance(module, FSDPModule)
            module.set_requires_gradient_sync(now)


def _read(
    losses_of_parts: list[dict[str, Tensor]], norms: dict[str, Tensor]
) -> tuple[dict[str, float], dict[str, float]]:
    """Losses, as means over parts, and gradient norms: one transfer, where the host waits for the device."""
    names = list(losses_of_parts[0])
    tensors = [losses[name] for losses in losses_of_parts for name in names] + list(norms.values())
    values = torch.stack(tensors).tolist()
    means = dict.fromkeys(names, 0.0)
    for place, value in enumerate(values[: len(names) * len(losses_of_parts)]):
        means[names[place % len(names)]] += value / len(losses_of_parts)
    return means, dict(zip(norms, values[-len(norms) :], strict=True))
