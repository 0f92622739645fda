"""Endo-FM and EndoFM-LV on single images.

Both are video transformers with divided attention: in every block the patches first attend over time, then over space.
An image is a clip of one frame, and attention over one token is that token's value: the temporal part becomes a linear
map. Names and shapes of the tensors follow the authors' public source code; no published file was at hand to try.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source, values_checksum
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.weights.fit import beside_the_head, refuse_misfit
from panendofm.backbone.weights.weight_files import read_tensors
from panendofm.runtime.errors import UserError

NORM_EPSILON = 1e-6
_HEAD_WIDTH = 64


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])  # [B, heads, N, d]
        result: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return result

    def of_one_token(self, x: Tensor) -> Tensor:
        """Attention in which every token is alone with itself."""
        width = x.shape[-1]
        value = F.linear(x, self.qkv.weight[2 * width :], self.qkv.bias[2 * width :])
        result: Tensor = self.proj(value)
        return result


class _Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return result


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.temporal_norm1 = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.temporal_attn = _Attention(width, heads)
        self.temporal_fc = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.attn = _Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.mlp = _Mlp(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        cls, patches = x[:, :1], x[:, 1:]
        patches = patches + self.temporal_fc(self.temporal_attn.of_one_token(self.temporal_norm1(patches)))
        x = torch.cat([cls, patches], dim=1)
        x = x + self.attn(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class _PatchEmbedding(nn.Module):
    def __init__(self, width: int, patch_px: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch_px, stride=patch_px)


class EndoFM(nn.Module):
    """Images [B, 3, H, W] of the size that the positions are stored for → the cls token [B, D] after the norm."""

    def __init__(self, width: int, depth: int, hidden: int, patch_px: int, positions: int, frames: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, positions, width))
        self.time_embed = nn.Parameter(torch.zeros(1, frames, width))
        self.patch_embed = _PatchEmbedding(width, patch_px)
        heads = max(1, width // _HEAD_WIDTH)
        self.blocks = nn.ModuleList(_Block(width, heads, hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=NORM_EPSILON)

    def forward(self, images: Tensor) -> Tensor:
        return self._tokens(images, 1)[0][:, 0]

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """The patch tokens of the last blocks on their grid, [B, D, h, w] each, after the norm."""
        patch_px = self.patch_embed.proj.kernel_size[0]
        grid = images.shape[-2] // patch_px, images.shape[-1] // patch_px
        return [tokens[:, 1:].mT.reshape(len(images), -1, *grid) for tokens in self._tokens(images, last)]

    def _tokens(self, images: Tensor, last: int) -> list[Tensor]:
        """Cls token and patches [B, 1 + N, D] after each of the last blocks and the norm."""
        patches = self.patch_embed.proj(images).flatten(2).transpose(1, 2)  # [B, N, D]
        x = torch.cat([self.cls_token.expand(len(images), -1, -1), patches], dim=1) + self.pos_embed
        # Time positions are stretched to the clip's length by the nearest one: one frame gets the first.
        x = torch.cat([x[:, :1], x[:, 1:] + self.time_embed[:, :1]], dim=1)
        outputs: list[Tensor] = []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number >= len(self.blocks) - last:
                outputs.append(self.norm(x))
        return outputs


def endofm_from(tensors: dict[str, Tensor], source: str) -> EndoFM:
    """The network that a state dict belongs to; heads beside it are left out, anything missing is an error."""
    needed = ("cls_token", "pos_embed", "time_embed", "patch_embed.proj.weight", "blocks.0.temporal_fc.weight")
    absent = [name for name in needed if name not in tensors]
    if absent:
        raise UserError(f"{source}: it is no Endo-FM checkpoint, the tensor '{absent[0]}' is missing.")
    width = tensors["cls_token"].shape[-1]
    blocks = {int(m.group(1)) for name in tensors if (m := re.match(r"blocks\.(\d+)\.", name))}
    depth = len(blocks)
    if depth != 1 + max(blocks):  # before anything of that depth is built: a name may claim any number
        raise UserError(f"{source}: there is a block {max(blocks)}, but not all blocks before it.")
    model = EndoFM(
        width,
        depth,
        tensors["blocks.0.mlp.fc1.weight"].shape[0],
        tensors["patch_embed.proj.weight"].shape[-1],
        tensors["pos_embed"].shape[1],
        tensors["time_embed"].shape[1],
    )
    wanted = model.state_dict()
    for name, tensor in wanted.items():
        if name not in tensors or tensors[name].shape != tensor.shape:
            raise UserError(f"{source}: the tensor '{name}' is missing or not of shape {tuple(tensor.shape)}.")
    refuse_misfit(source, (), unexpected=beside_the_head(tensors, wanted))
    model.load_state_dict({name: tensors[name] for name in wanted})
    return model.eval()


def endofm_source(rest: str) -> Source:
    """`endofm:FILE`."""
    path = Path(rest)
    if not path.is_file():
        raise UserError(f"endofm:{rest}: the file {path} does not exist; check the path.")
    return Source(path.stem, partial(_read, path), kind="endofm", files=path)


def _read(path: Path) -> Loaded:
    tensors, _ = read_tensors(path, "teacher")
    model = endofm_from(tensors, str(path))
    side = round((model.pos_embed.shape[1] - 1) ** 0.5) * model.patch_embed.proj.kernel_size[0]
    preprocessing = Preprocessing().at_crop(side)
    outputs = Outputs(maps=len(model.blocks))
    return Loaded(model, Description("endofm", values_checksum("endofm", model), preprocessing, outputs, "endofm"))
