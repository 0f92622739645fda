"""Gradient clipping, each student submodule by its own norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


@torch.no_grad()
def clip_per_submodule(student: nn.Module, max_norm: float) -> dict[str, Tensor]:
    """Scale the gradients of backbone, DINO head and iBOT head to `max_norm` each; their norms before clipping.

    The norm is that of the whole gradient, also where it is sharded over ranks.
    """
    norms: dict[str, Tensor] = {}
    for name, module in student.named_children():
        parameters = [p for p in module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        norms[name] = norm
    return norms
