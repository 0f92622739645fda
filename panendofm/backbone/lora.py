"""Low-rank adapters (LoRA): a frozen linear layer, plus the product of two thin matrices that trains.

    y = x Wᵀ + b + (x downᵀ) upᵀ            down [R, in], up [out, R], up = 0 at the start

The merged layer W + up·down is a plain one: whoever loads the weights sees no adapter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_DOWN = ".lora_down"
_UP = ".lora_up"


class LoraLinear(nn.Linear):
    """A linear layer whose own weights are frozen, with an adapter of some rank."""

    def __init__(self, in_features: int, out_features: int, rank: int) -> None:
        super().__init__(in_features, out_features)
        self.lora_down = nn.Parameter(torch.empty(rank, in_features))
        self.lora_up = nn.Parameter(torch.zeros(out_features, rank))
        # As a linear layer draws its weights; with `up` at zero the layer starts as the one it replaces.
        nn.init.kaiming_uniform_(self.lora_down, a=math.sqrt(5))
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)

    def forward(self, input: Tensor) -> Tensor:
        thin = F.linear(input, self.lora_down)  # [T, R]
        return F.linear(input, self.weight, self.bias) + F.linear(thin, self.lora_up)  # [T, out]


def add_adapters(module: nn.Module, rank: int) -> None:
    """Replace every linear layer below `module` by one with an adapter; the weights stay."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            adapted = LoraLinear(child.in_features, child.out_features, rank)
            adapted.weight = nn.Parameter(child.weight.detach(), requires_grad=False)
            adapted.bias = nn.Parameter(child.bias.detach(), requires_grad=False)
            setattr(module, name, adapted)
        else:
            add_adapters(child, rank)


def merge_adapters(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with its adapters merged into plain weights; one without adapters stays as it is."""
    plain = {name: tensor for name, tensor in state.items() if not name.endswith((_DOWN, _UP))}
    for name, up in state.items():
        if name.endswith(_UP):
            layer = name.removesuffix(_UP)
            plain[f"{layer}.weight"] = state[f"{layer}.weight"] + up @ state[layer + _DOWN]
    return plain
