"""The teacher as a moving average of the student."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from panendofm.backbone import LoraLinear
from pretrain.parallel.local import local

# Parameters that are averaged at a time when a second copy of them is needed.
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
    if unless is None:
        torch._foreach_mul_(old, momentum)
        torch._foreach_add_(old, new, alpha=1 - momentum)
        return
    # The same two operations, for the same bits.
    for first in range(0, len(old), _AT_A_TIME):
        part = old[first : first + _AT_A_TIME]
        moved = torch._foreach_mul(part, momentum)
        torch._foreach_add_(moved, new[first : first + _AT_A_TIME], alpha=1 - momentum)
        for before, after in zip(part, moved, strict=True):
            torch.where(unless, before, after, out=before)


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
