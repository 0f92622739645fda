"""The teacher as a moving average of the student."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from panendofm.backbone import LoraLinear
from pretrain.parallel.local import local

# Parameters that are averaged at a time: a second copy of them is needed.
_AT_A_TIME = 32


@torch.no_grad()
def update_ema(teacher: nn.Module, student: nn.Module, momentum: float, unless: Tensor | None = None) -> None:
    """teacher ← momentum · teacher + (1 − momentum) · student, over all parameters that train.

    Sharded models average their own shards: student and teacher are sharded alike, so nothing is communicated but the
    thin matrices of adapters. The teacher has no adapters: it follows the student's merged weights. Where `unless`, a
    flag on the device, is true, the teacher stays as it is.
    """
    moving = dict(_moving(student))
    of_teacher = dict(teacher.named_parameters())
    if not moving.keys() <= of_teacher.keys():
        raise ValueError("student and teacher hold different parameters")
    old = [local(of_teacher[name]) for name in moving]
    new = list(moving.values())
    if [p.shape for p in old] != [p.shape for p in new]:
        raise ValueError("student and teacher hold different parameters, or are sharded differently")
    kept: float | Tensor = momentum
    taken: float | Tensor = 1 - momentum
    if unless is not None:
        kept, taken = torch.where(unless, 1.0, momentum), torch.where(unless, 0.0, 1 - momentum)
    # Three calls for many tensors, with and without a flag: the same bits, and few kernels for the host to start.
    for first in range(0, len(old), _AT_A_TIME):
        part = old[first : first + _AT_A_TIME]
        scaled = torch._foreach_mul(new[first : first + _AT_A_TIME], taken)
        torch._foreach_mul_(part, kept)
        torch._foreach_add_(part, scaled)


def _moving(student: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What changes in training, under the names of a plain network: this rank's shards."""
    for prefix, module in student.named_modules():
        if isinstance(module, LoraLinear):
            # Rows are sharded, of `weight` and `up` alike; `down` is needed whole.
            down = module.lora_down
            whole = down.full_tensor() if isinstance(down, DTensor) else down
            yield f"{prefix}.weight", local(module.weight) + local(module.lora_up) @ whole
            continue
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if parameter.requires_grad:
                yield name, local(parameter)
