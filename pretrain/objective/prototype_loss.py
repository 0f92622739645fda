"""Cross-entropy of prototype scores against targets, some rows at a time: the scores are never there as a whole.

With 131,072 prototypes the scores of a batch, their logits and their gradients are several gigabytes, and reading and
writing them takes longer than the matrix products. So each chunk of rows goes all the way: scores, loss, and, since the
weight of every row in the loss is known, its gradient. The backward pass only scales what the forward pass has made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

STUDENT_TEMPERATURE = 0.1
# Numbers of a chunk of scores, 64 MB: large enough that the GPU does not wait for the host, small beside its memory.
CHUNK = 1 << 24
# More scores than that many chunks come in larger ones: else the host would take longer than the GPU.
MOST_CHUNKS = 64


def chunk_size(numbers: int) -> int:
    """How many of so many scores are computed at a time."""
    return max(CHUNK, numbers // MOST_CHUNKS)


def prototype_scores(x: Tensor, prototypes: Tensor) -> Tensor:
    """The products of rows [N, D] and prototypes [K, D] as fp32 [N, K], for targets: never twice, and no gradient."""
    scores = torch.empty(len(x), len(prototypes), dtype=torch.float32, device=x.device)
    at_a_time = max(1, chunk_size(scores.numel()) // len(prototypes))
    for start in range(0, len(x), at_a_time):
        rows = slice(start, start + at_a_time)
        scores[rows] = F.linear(x[rows], prototypes)
    return scores


class LossTargets:
    """What successive rows of a head are compared with.

    No tensor, tuple or dataclass: FSDP casts what it finds in those to the parameters' type, and targets are fp32.
    """

    def __init__(self, targets: Tensor, target_of_row: Tensor | None, weights: Tensor) -> None:
        self.targets = targets  # [T, K], fp32; need not sum to 1
        self.target_of_row = target_of_row  # [N], rows of `targets`; None: each its own
        self.weights = weights  # [N], of each row in the loss

    def __len__(self) -> int:
        return len(self.weights)


def prototype_loss(x: Tensor, prototypes: Tensor, parts: Sequence[LossTargets]) -> tuple[Tensor, Tensor]:
    """Σ_rows weight · −Σ_k t_k · log softmax(x·prototypesᵀ / 0.1)_k, and the same of each part, without gradient.

    x [N, D], prototypes [K, D]; the rows are those of the parts in turn.
    """
    if len(x) != sum(map(len, parts)):
        raise ValueError(f"{len(x)} rows, but targets for {sum(map(len, parts))}")
    loss, by_part = _PrototypeLoss.apply(x, prototypes, parts)  # type: ignore[no-untyped-call]
    return loss, by_part


class _PrototypeLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, prototypes: Tensor, parts: Sequence[LossTargets]) -> tuple[Tensor, Tensor]:
        wants_gradient = any(ctx.needs_input_grad[:2])
        grad_x = torch.zeros_like(x) if wants_gradient else None  # [N, D]
        grad_prototypes = torch.zeros_like(prototypes, dtype=torch.float32) if wants_gradient else None  # [K, D]
        by_part = x.new_zeros(len(parts), dtype=torch.float32)
        for number, rows, targets, weights in _chunks(parts, prototypes.shape[0]):
            scores = F.linear(x[rows], prototypes)  # [C, K], of autocast's type
            with torch.autocast(x.device.type, enabled=False):
                mass = targets.sum(dim=-1)  # [C]
                logits = scores.float().div_(STUDENT_TEMPERATURE)  # [C, K]
                level = torch.logsumexp(logits, dim=-1)  # [C]
                losses = mass * level - torch.linalg.vecdot(targets, logits)
                by_part[number] += (losses * weights).sum()
                if grad_x is None or grad_prototypes is None:
                    continue
                gradient = logits.sub_(level[:, None]).exp_().mul_(mass[:, None]).sub_(targets)  # [C, K]
                gradient = gradient.mul_((weights / STUDENT_TEMPERATURE)[:, None]).to(scores.dtype)
                grad_x[rows] = (gradient @ prototypes.to(scores.dtype)).to(x.dtype)
                _add_product(grad_prototypes, gradient.T, x[rows].to(scores.dtype))
        if grad_x is not None and grad_prototypes is not None:
            # Not saved by torch, which would forbid to scale them in place: they are no part of anything else.
            ctx.gradients = grad_x, grad_prototypes.to(prototypes.dtype)
        ctx.mark_non_differentiable(by_part)
        return by_part.sum(), by_part

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
        grad_x, grad_prototypes = ctx.gradients
        del ctx.gradients
        return grad_x.mul_(grad), grad_prototypes.mul_(grad), None


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b. In one go where the types are the same: a product of all prototypes' size is no small thing."""
    if a.dtype == total.dtype:
        torch.addmm(total, a, b, out=total)
    else:
        total += a @ b


def _chunks(parts: Sequence[LossTargets], prototypes: int) -> Iterator[tuple[int, slice, Tensor, Tensor]]:
    """Number of the part, its rows among all, their targets [C, K] and weights [C]."""
    first = 0
    for number, part in enumerate(parts):
        at_a_time = max(1, chunk_size(len(part) * prototypes) // prototypes)
        for start in range(0, len(part), at_a_time):
            rows = slice(start, min(start + at_a_time, len(part)))
            own = part.targets[rows] if part.target_of_row is None else part.targets[part.target_of_row[rows]]
            yield number, slice(first + rows.start, first + rows.stop), own, part.weights[rows]
        first += len(part)
