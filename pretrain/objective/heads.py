"""The projection head that turns tokens into prototype scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.objective.config import HeadConfig
from pretrain.objective.prototype_loss import LossTargets, prototype_loss, prototype_scores


class PrototypeLayer(nn.Module):
    """Weight-normalised linear layer without bias: row k is weight_g[k] · weight_v[k] / ‖weight_v[k]‖.

    The magnitudes `weight_g` start at 1 and are trained.
    """

    def __init__(self, bottleneck: int, prototypes: int) -> None:
        super().__init__()
        self.weight_g = nn.Parameter(torch.empty(prototypes, 1))
        self.weight_v = nn.Parameter(torch.empty(prototypes, bottleneck))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight_g)
        bound = 1 / math.sqrt(self.weight_v.shape[1])  # as nn.Linear does
        nn.init.uniform_(self.weight_v, -bound, bound)

    def prototypes(self) -> Tensor:
        """Unit vectors times their magnitudes, [K, bottleneck]."""
        length: Tensor = self.weight_v.norm(dim=1, keepdim=True)
        return self.weight_v * (self.weight_g / length)


class ProjectionHead(nn.Module):
    """Linear-GELU layers, a linear layer to the bottleneck, L2 normalization, prototypes: [N, D] → [N, K]."""

    def __init__(self, width: int, config: HeadConfig) -> None:
        super().__init__()
        widths = [width, *[config.hidden] * (config.layers - 1), config.bottleneck]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.GELU()]
        self.mlp = nn.Sequential(*layers[:-1])  # no GELU after the bottleneck
        self.last_layer = PrototypeLayer(config.bottleneck, config.prototypes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        self.last_layer.reset_parameters()

    @overload
    def forward(self, x: Tensor) -> Tensor: ...
    @overload
    def forward(self, x: Tensor, parts: Sequence[LossTargets]) -> tuple[Tensor, Tensor]: ...
    def forward(self, x: Tensor, parts: Sequence[LossTargets] | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Scores [N, K]; or, with what the rows are compared with, the loss and that of each part."""
        x = self.mlp(x)  # [N, bottleneck]
        x = F.normalize(x, dim=-1)
        prototypes = self.last_layer.prototypes()  # [K, bottleneck]
        if parts is not None:
            return prototype_loss(x, prototypes, parts)
        return F.linear(x, prototypes) if torch.is_grad_enabled() else prototype_scores(x, prototypes)
