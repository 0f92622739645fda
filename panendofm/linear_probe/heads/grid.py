"""Linear heads on frozen features: every learning rate of the grid is trained at the same time.

All heads see the same batches, so one matrix product serves all of them. The gradient is written out:

    logits = x·W                      [B, H·C]   (x carries a last column of ones, W the bias as its last row)
    loss   = mean over images of Σ_c weight[i, c] · BCE(logits[i, c], target[i, c])
    dW     = xᵀ·(weight · (sigmoid(logits) − target)) / B
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from panendofm.atlas import Level
from panendofm.linear_probe.config import TrainingConfig
from panendofm.linear_probe.heads.schedule import no_progress, warm_restarts

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


def class_weights(targets: NDArray[np.bool_]) -> NDArray[np.float64]:
    """log(1 + N / n_c) of every class [C]; 0 for a class without images."""
    counts = targets.sum(0)
    return np.where(counts > 0, np.log1p(len(targets) / np.maximum(counts, 1)), 0.0)


def loss_weights(targets: NDArray[np.bool_], levels: tuple[Level, ...]) -> NDArray[np.float64]:
    """Weight of every term of the loss [n, C].

    At each level an image weighs as much as its class, or the mean over its classes; the level's loss is the mean over
    the level's classes, and levels add up.
    """
    per_class = class_weights(targets)
    weights = np.zeros(targets.shape)
    for level in levels:
        columns = slice(level.start, level.stop)
        shown = targets[:, columns]
        per_image = (shown * per_class[columns]).sum(1) / np.maximum(shown.sum(1), 1)  # [n]
        weights[:, columns] = per_image[:, None] / (level.stop - level.start)
    return weights


@dataclass(frozen=True)
class TrainedHeads:
    """The best weights of every head by validation AUC."""

    weights: Tensor  # [H, D, C]
    biases: Tensor  # [H, C]
    validation_auc: list[float]
    best_epoch: list[int]  # from 0
    epochs: list[int]  # that each head was trained


def train_heads(
    features: Tensor,
    targets: Tensor,
    weights: Tensor,
    validation_features: Tensor,
    validation_targets: Tensor,
    learning_rates: list[float],
    config: TrainingConfig,
    advance: Callable[[], object] = no_progress,
) -> TrainedHeads:
    """Train one head per learning rate on features [n, D], targets and weights [n, C]; stop each one by itself.

    `advance` is called after every epoch.
    """
    n, depth = features.shape
    classes, heads = targets.shape[1], len(learning_rates)
    device = features.device
    x = torch.cat([features, torch.ones(n, 1, device=device)], dim=1)  # [n, D + 1]
    x_validation = torch.cat([validation_features, torch.ones(len(validation_features), 1, device=device)], dim=1)
    y = targets.to(x.dtype)
    random = torch.Generator().manual_seed(config.seed)
    first = torch.empty(depth + 1, classes).uniform_(-(depth**-0.5), depth**-0.5, generator=random).to(device)
    w = first[:, None].repeat(1, heads, 1)  # [D + 1, H, C]
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    best = w.clone()
    best_auc, best_epoch, epochs = [-1.0] * heads, [0] * heads, [0] * heads
    active = list(range(heads))
    step = 0
    for epoch in range(config.max_epochs):
        rates = torch.tensor(
            [
                warm_restarts(
                    learning_rates[h],
                    epoch,
                    config.first_cycle_epochs,
                    config.cycle_growth,
                    config.floor_learning_rate,
                )
                for h in active
            ],
            device=device,
        )[None, :, None]  # [1, H, 1]
        order = torch.randperm(n, generator=random).to(device)
        for batch in torch.split(order, config.batch_size):
            step += 1
            _adamw_step(w, m, v, gradient(w, x[batch], y[batch], weights[batch]), rates, step, config.weight_decay)
        advance()
        logits = (x_validation @ w.flatten(1)).view(-1, *w.shape[1:])  # [V, H, C]
        still_training = []
        for position, (head, auc) in enumerate(zip(active, macro_auc(validation_targets, logits), strict=True)):
            epochs[head] = epoch + 1
            if auc > best_auc[head]:
                best_auc[head], best_epoch[head] = auc, epoch
                best[:, head] = w[:, position]
            if epoch - best_epoch[head] < config.patience_epochs:
                still_training.append(position)
        if len(still_training) < len(active):
            w, m, v = w[:, still_training], m[:, still_training], v[:, still_training]
            active = [active[position] for position in still_training]
        if not active:
            break
    best = best.permute(1, 0, 2)  # [H, D + 1, C]
    return TrainedHeads(best[:, :-1], best[:, -1], best_auc, best_epoch, epochs)


def gradient(w: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Of the mean weighted cross-entropy: w [D + 1, H, C], x [B, D + 1], y and weights [B, C] → [D + 1, H, C]."""
    residual = (x @ w.flatten(1)).view(-1, *w.shape[1:]).sigmoid_()  # [B, H, C]
    residual.sub_(y[:, None]).mul_(weights[:, None] / len(x))
    return (x.T @ residual.flatten(1)).view(w.shape)


def _adamw_step(w: Tensor, m: Tensor, v: Tensor, grad: Tensor, rates: Tensor, step: int, decay: float) -> None:
    """torch.optim.AdamW's update in place, with a learning rate [1, H, 1] for each head."""
    m.lerp_(grad, 1 - _BETAS[0])
    v.mul_(_BETAS[1]).addcmul_(grad, grad, value=1 - _BETAS[1])
    w.mul_(1 - rates * decay)
    spread = v.sqrt().div_((1 - _BETAS[1] ** step) ** 0.5).add_(_EPSILON)
    w.sub_((m / spread).mul_(rates / (1 - _BETAS[0] ** step)))


def macro_auc(targets: Tensor, scores: Tensor) -> list[float]:
    """Macro-AUC of every head: targets bool [V, C], scores [V, H, C]; over the classes that have both kinds."""
    positives = targets.sum(0)  # [C]
    usable = (positives > 0) & (positives < len(targets))
    if not bool(usable.any()):
        return [0.0] * scores.shape[1]
    t, s = targets[:, usable], scores[:, :, usable].permute(1, 2, 0).contiguous()  # s [H, C', V]
    ranked, _ = s.sort(dim=-1)
    # The mean rank of equal scores: half-way between the first and the last place that they take.
    ranks = (torch.searchsorted(ranked, s) + torch.searchsorted(ranked, s, right=True) + 1) / 2
    p = t.sum(0).double()  # [C']
    rank_sum = (ranks.double() * t.T).sum(-1)  # [H, C']
    areas = (rank_sum - p * (p + 1) / 2) / (p * (len(t) - p))
    result: list[float] = areas.mean(-1).tolist()
    return result
