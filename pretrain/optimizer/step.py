"""One optimizer step over sharded parameters: accumulated, checked on all ranks, and then done by all or by none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from panendofm.records.metrics import TOTAL
from pretrain.data.loader import LoadedBatch
from pretrain.objective.drop_path import DropPath
from pretrain.objective.objective import Objective
from pretrain.objective.targets import Centering
from pretrain.optimizer.adamw import ShardedAdamW
from pretrain.optimizer.clipping import clip_per_submodule
from pretrain.optimizer.parameter_groups import set_step_values
from pretrain.parallel.collectives import sum_over_ranks
from pretrain.parallel.world import World
from pretrain.schedules import StepValues


@dataclass(frozen=True)
class StepResult:
    """What a step did, as means over ranks."""

    losses: dict[str, float]  # what was optimized
    gradient_norms: dict[str, float]  # of each student submodule, before clipping
    skipped: bool  # non-finite somewhere: weights, optimizer, teacher and centers are as they were
    own_loss_is_finite: bool  # this rank's


@dataclass(frozen=True)
class PendingResult:
    """The result of a step, still on the device: the host need not wait for it."""

    losses: list[str]
    gradient_norms: list[str]
    values: Tensor  # fp64 [2 + losses + norms]: whether skipped, whether the own loss is finite, losses, norms

    def read(self) -> StepResult:
        return read_results([self])[0]


def read_results(results: Sequence[PendingResult]) -> list[StepResult]:
    """The results of some steps: one transfer, where the host waits for the device."""
    read = []
    rows = torch.stack([result.values for result in results]).tolist() if results else []
    for result, (skipped, own_is_finite, *values) in zip(results, rows, strict=True):
        losses = dict(zip(result.losses, values, strict=False))
        norms = dict(zip(result.gradient_norms, values[len(losses) :], strict=True))
        read.append(StepResult(losses, norms, skipped > 0, own_is_finite > 0))
    return read


class Stepper:
    """Runs steps. Centers and teacher move once a step, however many parts it has.

    Whether a step is finite is decided on the device, by all ranks together. Where the device computes beside the host,
    the host never learns it here: the flag goes into the kernels that change weights. On the CPU asking costs nothing,
    and a step that is skipped is spared them; `decides_on_device` says it otherwise. The bits are the same.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: ShardedAdamW,
        clip_norm: float,
        drop_path: DropPath,
        world: World,
        decides_on_device: bool | None = None,
    ) -> None:
        self.objective = objective
        self.optimizer = optimizer
        self.clip_norm = clip_norm
        self.drop_path = drop_path
        self.world = world
        self.decides_on_device = world.device.type != "cpu" if decides_on_device is None else decides_on_device
        self._centers = [m.center for m in objective.modules() if isinstance(m, Centering)]

    def run(self, parts: list[LoadedBatch], values: StepValues) -> PendingResult:
        """A step over this rank's parts of the batch."""
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
        norms = clip_per_submodule(self.objective.student, self.clip_norm)
        result, skipped = self._agree(losses_of_parts, norms)
        self._update(values, moved, skipped)
        return result

    def _agree(
        self, losses_of_parts: list[dict[str, Tensor]], norms: dict[str, Tensor]
    ) -> tuple[PendingResult, Tensor]:
        """The step's result, and whether it was non-finite on any rank: a flag on the device, the same on all."""
        names = list(losses_of_parts[0])
        by_part = torch.stack([loss for losses in losses_of_parts for loss in losses.values()])
        own = (by_part.double() / len(losses_of_parts)).view(-1, len(names)).sum(dim=0)  # [losses]
        own_norms = torch.stack(list(norms.values())).double()  # [norms]
        own_is_finite = own[names.index(TOTAL)].isfinite()
        finite = own_is_finite & own_norms.isfinite().all()
        summed = sum_over_ranks(torch.cat([own, (~finite).double()[None]]))  # [losses + 1]
        skipped = summed[-1] > 0
        flags = torch.stack([skipped, own_is_finite]).double()
        values = torch.cat([flags, summed[:-1] / self.world.size, own_norms])
        return PendingResult(names, list(norms), values), skipped

    def _update(self, values: StepValues, moved: list[Tensor], skipped: Tensor) -> None:
        """Weights, teacher and centers, unless the step is skipped."""
        if not self.decides_on_device and bool(skipped):
            return
        unless = skipped if self.decides_on_device else None
        self.optimizer.step(unless)
        self.objective.update_teacher(values.momentum, values.backbone_momentum, unless)
        for center, total in zip(self._centers, moved, strict=True):
            center.copy_(total if unless is None else torch.where(unless, center, total))

    def _part(self, part: LoadedBatch, values: StepValues, parts: int) -> dict[str, Tensor]:
        device, ramp = self.world.device, values.ramp
        drop_path = self.drop_path.draw(ramp.drop_path, part.step, part.microgroups)
        if drop_path is not None:
            drop_path = [self._sent(chosen) for chosen in drop_path]
        losses: dict[str, Tensor] = self.objective(part.batch.to(device), values.teacher_temperature, ramp, drop_path)
        (losses[TOTAL] / parts).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _sent(self, tensor: Tensor) -> Tensor:
        """On the device. From page-locked memory: for a copy from other memory the host would wait."""
        if self.world.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.world.device, non_blocking=True)

    def _reduce_gradients(self, now: bool) -> None:
        """Gradients travel between ranks with the last part only."""
        for module in self.objective.student.values():
            if isinstance(module, FSDPModule):  # one rank alone has none
                module.set_requires_gradient_sync(now)
