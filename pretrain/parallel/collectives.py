"""The few collective operations that the losses need. Without a process group they are the identity."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def sum_over_ranks(x: Tensor) -> Tensor:
    """Sum `x` over ranks, in place, without gradient."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def max_over_ranks(x: Tensor) -> Tensor:
    """Largest `x` over ranks, in place, without gradient."""
    if world_size() > 1:
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x


def gather_rows(x: Tensor) -> Tensor:
    """Rows of all ranks in rank order, [B, D] → [W·B, D]. Gradients flow back to the rank that a row came from."""
    return x if world_size() == 1 else _GatherRows.apply(x)  # type: ignore[no-untyped-call]


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = x.shape[0]
        parts = [torch.empty_like(x) for _ in range(world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)  # [W·B, D]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        # Every rank's loss may use every row: a row's gradient is the sum over ranks.
        total = sum_over_ranks(gradients[0].clone())  # [W·B, D]
        return total[rank() * ctx.rows : (rank() + 1) * ctx.rows]
