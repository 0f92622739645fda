"""Teacher scores to target distributions: Sinkhorn-Knopp or centered softmax. Always in fp32, over all ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pretrain.objective.prototype_loss import chunk_size
from pretrain.parallel.collectives import max_over_ranks, sum_over_ranks, world_size


class SinkhornKnopp(nn.Module):
    """Targets in which the prototypes are used equally over the samples of all ranks.

        Q = exp(t / τ)ᵀ                           # [K, B]
        repeat 3 times:
            rows    /= row sum over all ranks     # every prototype gets the same weight …
            columns /= column sum (local)         # … and every sample is a distribution

    Computed on log Q, so that no logit is too large. The constants of the textbook form (the total, K and B) are left
    out: they cancel at the next normalization. The scores are used up: those of the masked patches are more than a
    gigabyte, and nobody else wants them.
    """

    def __init__(self, iterations: int = 3) -> None:
        super().__init__()
        self.iterations = iterations

    @torch.no_grad()
    def forward(self, scores: Tensor, temperature: float) -> Tensor:
        with torch.autocast(scores.device.type, enabled=False):
            log_q = scores.float().div_(temperature)  # [B, K]
            for _ in range(self.iterations):
                log_q -= _logsumexp_over_ranks(_logsumexp(log_q, dim=0))  # [K]
                log_q -= _logsumexp(log_q, dim=1)[:, None]  # [B, 1]
            return log_q.exp_()  # [B, K]: every sample sums to 1


def _logsumexp(x: Tensor, dim: int) -> Tensor:
    """Over one dimension of [B, K], a part of the other at a time: torch makes a copy of what it is given."""
    if x.numel() == 0:
        return torch.logsumexp(x, dim)
    pieces = max(1, x.numel() // chunk_size(x.numel()))
    return torch.cat([torch.logsumexp(piece, dim) for piece in x.chunk(pieces, 1 - dim)])


def _logsumexp_over_ranks(x: Tensor) -> Tensor:
    """log Σ_ranks exp(x), elementwise; a rank without samples brings −∞."""
    if world_size() == 1:
        return x
    highest = max_over_ranks(x.clone())
    return highest + sum_over_ranks((x - highest).exp()).log()


class Centering(nn.Module):
    """Targets softmax((t − center) / τ) with a running mean of the teacher's scores as center.

    A batch moves the center only after its own targets are made: the center is one step late. It moves at once and not
    at the next call, so that a checkpoint holds all of it.
    """

    center: Tensor

    def __init__(self, prototypes: int, momentum: float = 0.9) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(1, prototypes))

    @torch.no_grad()
    def forward(self, scores: Tensor, temperature: float) -> Tensor:
        with torch.autocast(scores.device.type, enabled=False):
            scores = scores.float()  # [B, K]
            targets = torch.softmax((scores - self.center) / temperature, dim=-1)
            self._move_center(scores)
            return targets

    def _move_center(self, scores: Tensor) -> None:
        """center ← momentum · center + (1 − momentum) · mean over ranks of each rank's mean."""
        has_rows = float(len(scores) > 0)
        mean = scores.mean(dim=0, keepdim=True) if has_rows else torch.zeros_like(self.center)  # [1, K]
        counted = torch.cat([mean, mean.new_full((1, 1), has_rows)], dim=1)  # [1, K + 1]
        counted = sum_over_ranks(counted)
        ranks_with_rows = counted[:, -1:]  # a rank without masked patches has no mean to give
        mean = counted[:, :-1] / ranks_with_rows.clamp_min(1)
        moved = self.center * self.momentum + mean * (1 - self.momentum)
        self.center.copy_(torch.where(ranks_with_rows > 0, moved, self.center))
