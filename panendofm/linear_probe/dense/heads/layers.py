"""Heads on feature maps: a probability for every class at every field of the grid.

linear      logistic regression on one block; which block is chosen on validation
linear-4    logistic regression on all blocks together
decoder     1×1 to 64 channels, twice enlarged ×2 with a 3×3 convolution; about 0.1 M parameters
published   DINOv2's recipe: batch norm and 1×1 on all blocks, AdamW with a decaying learning rate
center      boxes: per field an objectness, and where the box's middle and sides lie

Linear heads carry the standardization of features in their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.linear_probe.dense.maps import Block

DECODER_WIDTH = 64


@dataclass(frozen=True)
class LinearHead:
    """x·W + b on the channels of a block. A center head has five columns a class: objectness, offsets, log sizes."""

    block: Block | None  # None: all channels
    weight: Tensor  # [D, O]
    bias: Tensor  # [O]

    def logits(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        """[B, P, C] → [B, O, rows, columns]."""
        if self.block is not None:
            x = x[..., self.block.start : self.block.stop]
        return (x @ self.weight + self.bias).mT.reshape(len(x), -1, *grid)

    def tensors(self) -> dict[str, Tensor]:
        return {"weight": self.weight, "bias": self.bias}


class Decoder(nn.Module):
    """[B, C, h, w] → [B, K, 4h, 4w]."""

    def __init__(self, channels: int, classes: int, width: int = DECODER_WIDTH) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, width, 1)
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(3))
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norms[0](self.reduce(x)))
        for convolution, norm in ((self.first, self.norms[1]), (self.second, self.norms[2])):
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            x = F.gelu(norm(convolution(x)))
        result: Tensor = self.out(x)
        return result


@dataclass(frozen=True)
class DecoderHead:
    """A decoder on standardized features."""

    mean: Tensor  # [C]
    scale: Tensor  # [C]
    decoder: Decoder

    @torch.no_grad()
    def logits(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        x = ((x - self.mean) * self.scale).mT.reshape(len(x), -1, *grid)
        result: Tensor = self.decoder(x)
        return result

    def tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "scale": self.scale, **self.decoder.state_dict(prefix="decoder.")}


Head = LinearHead | DecoderHead


def standardization(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and one over the deviation of each column of x [n, D]; columns that don't vary count for nothing."""
    mean, deviation = x.mean(0), x.std(0)
    usable = deviation > 1e-6 * deviation.max().clamp_min(1e-12)
    return mean, torch.where(usable, 1 / deviation.clamp_min(1e-12), 0.0)


def folded(weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor, block: Block | None) -> LinearHead:
    """A head on raw features that does what weight [D, O] and bias [O] do on standardized ones."""
    own = scale[:, None] * weight
    return LinearHead(block, own, bias - mean @ own)
