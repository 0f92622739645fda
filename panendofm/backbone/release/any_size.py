"""A backbone whose position embeddings are interpolated by plain arithmetic, so that an ONNX graph can hold it.

ONNX's own Resize knows neither the reference's offset nor torch's antialiased bicubic. But interpolation is linear and
separable: two small matrices, which follow from the image's size by a few elementary operations.

    positions = R · grid · Cᵀ        R [rows, side], C [columns, side]
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from panendofm.backbone.vit import Attention, Block, VisionTransformer

# The cubic kernels of torch: without and with antialiasing they differ.
_SHARPNESS = -0.75
_ANTIALIAS_SHARPNESS = -0.5


class AnySize(nn.Module):
    """cls [B, D] and patches [B, N, D] of images [B, 3, H, W], whose sides are multiples of the patch.

    Images and tokens are float32. Between them everything is in the type of the model's values; positions are
    interpolated in float32 always.
    """

    def __init__(self, model: VisionTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        model, config = self.model, self.model.config
        patches = model.patch_embed.proj(images.to(model.pos_embed.dtype))  # [B, D, rows, columns]
        rows, columns = patches.shape[2], patches.shape[3]
        x = patches.flatten(2).transpose(1, 2)  # [B, N, D]
        x = x + self._grid(rows, columns)
        cls = (model.cls_token + model.pos_embed[:, :1]).expand(images.shape[0], -1, -1)
        parts = [cls, x]
        if config.registers:
            parts.insert(1, model.register_tokens.expand(images.shape[0], -1, -1))
        x = torch.cat(parts, dim=1)  # [B, 1 + R + N, D]
        for block in model.blocks:
            assert isinstance(block, Block)
            x = x + block.ls1(_attention(block.attn, block.norm1(x)))
            x = x + block.ls2(block.mlp(x, block.norm2))
        x = model.norm(x).float()
        return x[:, 0], x[:, 1 + config.registers :]

    def _grid(self, rows: Tensor | int, columns: Tensor | int) -> Tensor:
        config = self.model.config
        side = config.grid
        stored = self.model.pos_embed[:, 1:].float().reshape(side, side, -1)  # [side, side, D]
        # The stored grid itself is taken as it is, without the offset.
        is_stored = (torch.as_tensor(rows) == side) & (torch.as_tensor(columns) == side)
        offset = torch.where(is_stored, 0.0, config.position_offset)
        matrices = [resampling_matrix(size, side, offset, config.position_antialias) for size in (rows, columns)]
        scaled = torch.einsum("rs,std,ct->rcd", matrices[0], stored, matrices[1])  # [rows, columns, D]
        return scaled.flatten(0, 1).to(self.model.pos_embed.dtype)  # [N, D]


def resampling_matrix(size: Tensor | int, side: int, offset: Tensor | float, antialias: bool) -> Tensor:
    """[size, side]: how each of `size` samples mixes `side` stored ones, as torch's bicubic interpolation does."""
    places = torch.arange(side, dtype=torch.float64)[None]  # [1, side]
    step = side / (size + offset)  # stored samples between two of the new ones
    centers = (torch.arange(cast(int, size), dtype=torch.float64)[:, None] + 0.5) * step  # [size, 1]
    if not antialias:
        return _by_four_taps(centers - 0.5, places, side).float()
    widening = torch.clamp(torch.as_tensor(step, dtype=torch.float64), min=1.0)
    support = 2 * widening
    first = torch.clamp(torch.floor(centers - support + 0.5), min=0)
    end = torch.clamp(torch.floor(centers + support + 0.5), max=side)
    weights = _cubic((places - centers + 0.5) / widening, _ANTIALIAS_SHARPNESS)
    weights = torch.where((places >= first) & (places < end), weights, torch.zeros_like(weights))
    return (weights / weights.sum(dim=1, keepdim=True)).float()


def _by_four_taps(source: Tensor, places: Tensor, side: int) -> Tensor:
    """Each place [size, 1] from its four neighbors; beyond the border the outermost sample is repeated."""
    base = torch.floor(source)
    matrix = torch.zeros_like(source) * places  # [size, side]
    for tap in (-1, 0, 1, 2):
        weight = _cubic(source - base - tap, _SHARPNESS)  # [size, 1]
        place = torch.clamp(base + tap, 0, side - 1)
        matrix = matrix + torch.where(places == place, weight, torch.zeros_like(weight))
    return matrix


def _cubic(distance: Tensor, a: float) -> Tensor:
    """Keys' cubic convolution kernel."""
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _attention(attention: Attention, x: Tensor) -> Tensor:
    """Of whole sequences [B, T, D], in operations that every runtime has."""
    heads = attention.heads
    q, k, v = attention.qkv(x).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)  # each [B, heads, T, d]
    mixed = nn.functional.scaled_dot_product_attention(q, k, v)  # [B, heads, T, d]
    out: Tensor = attention.proj(mixed.transpose(1, 2).flatten(2))
    return out
