"""The teacher as a moving average of the student."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pretrain.parallel.local import local

# Parameters that are averaged at a time when a second copy of them is needed.
_AT_A_TIME = 32


@torch.no_grad()
def update_ema(teacher: nn.Module, student: nn.Module, momentum: float, unless: Tensor | None = None) -> None:
    """teacher ← momentum · teacher + (1 − momentum) · student, over all parameters.

    Sharded models average their own shards: student and teacher are sharded alike, so nothing is communicated. Where
    `unless`, a flag on the device, is true, the teacher stays as it is.
    """
    old = [local(p) for p in teacher.parameters()]
    new = [local(p) for p in student.parameters()]
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
