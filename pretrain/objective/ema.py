"""The teacher as a moving average of the student."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


@torch.no_grad()
def update_ema(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher ← momentum · teacher + (1 − momentum) · student, over all parameters.

    Sharded models average their own shards: student and teacher are sharded alike, so nothing is communicated.
    """
    old = [_local(p) for p in teacher.parameters()]
    new = [_local(p) for p in student.parameters()]
    if [p.shape for p in old] != [p.shape for p in new]:
        raise ValueError("student and teacher hold different parameters, or are sharded differently")
    torch._foreach_mul_(old, momentum)
    torch._foreach_add_(old, new, alpha=1 - momentum)


def _local(parameter: Tensor) -> Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter
