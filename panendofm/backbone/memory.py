"""Operations of a block that keep less for the backward pass than torch's own would. The bits are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

# By what the branches of each group are multiplied. Tensors where blocks are compiled: a number would become a part of
# the graph, and every step of a rising drop path would need another one.
Scales = tuple[float | Tensor, ...]


def keeping_inputs(layer: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """layer(*inputs). The backward pass makes again what lies between the inputs and the linear layer at the end.

    That layer itself is not run twice: its product needs its input, not its output, and torch stops as soon as it has
    everything. So this is for cheap operations (norm, GELU, a copy) whose result is as large as that of a dear one.
    Where blocks are compiled torch sees both passes as one graph, and chooses by itself.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return layer(*inputs)
    return cast(Tensor, checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False))


def add_rows(x: Tensor, branch: Tensor, rows: Tensor, sizes: list[int], scales: Scales) -> Tensor:
    """x [T, D] with the branch [T', D] added at `rows` [T']. Its rows come in groups of `sizes`, each with its scale.

    torch's index_add keeps what it adds, though only its shape counts.
    """
    return cast(Tensor, _AddRows.apply(x, branch, rows, sizes, *scales))  # type: ignore[no-untyped-call]


class _AddRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, branch: Tensor, rows: Tensor, sizes: list[int], *scales: float | Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.sizes, ctx.scales, ctx.branch_type = sizes, scales, branch.dtype
        parts = zip(torch.split(rows, sizes), torch.split(branch.to(x.dtype), sizes), scales, strict=True)
        for number, (group_rows, group_branch, scale) in enumerate(parts):
            add = x.index_add_ if number else x.index_add  # the first makes a copy, which belongs to nobody else
            if isinstance(scale, Tensor):
                x = add(0, group_rows, (group_branch * scale).to(x.dtype))
            else:
                x = add(0, group_rows, group_branch, alpha=scale)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        of_branch = grad.index_select(0, rows)  # [T', D]
        for group, scale in zip(torch.split(of_branch, ctx.sizes), ctx.scales, strict=True):
            group.mul_(scale)
        return grad, of_branch.to(ctx.branch_type), None, None, *(None for _ in ctx.scales)
