"""DINOv2's vision transformer, for one batch of images or for a packed list of crop sizes.

Every pass is a packed one: the tokens of all images lie in one tensor [T, D], linear layers and norms run on all of
them at once, and attention stays within each image. Parameter names are those of the official weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from panendofm.backbone.attention import Packing, attention, chosen_backend, joined, pack
from panendofm.backbone.config import Execution, ViTConfig
from panendofm.backbone.memory import Scales, add_rows, keeping_inputs

NORM_EPSILON = 1e-6


class Tokens(NamedTuple):
    """What a backbone makes of a batch of images; all after the final norm."""

    cls: Tensor  # [B, D]
    registers: Tensor  # [B, R, D]
    patches: Tensor  # [B, N, D]


class PatchEmbedding(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, config.width, config.patch_px, stride=config.patch_px)

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.proj(images)).flatten(2).transpose(1, 2)  # [B, N, D]


class Attention(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, packing: Packing, norm: nn.LayerNorm) -> Tensor:
        qkv = torch.unflatten(keeping_inputs(lambda x: self.qkv(norm(x)), x), 1, (3, self.heads, -1))
        pieces = attention(qkv, packing)  # from [T, 3, heads, d]
        return keeping_inputs(lambda *pieces: self.proj(joined(pieces)), *pieces)


class Mlp(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.width, config.hidden_width)
        self.fc2 = nn.Linear(config.hidden_width, config.width)

    def forward(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        hidden = keeping_inputs(lambda x: self.fc1(norm(x)), x)  # [T, H]
        return keeping_inputs(lambda hidden: self.fc2(F.gelu(hidden)), hidden)


class SwiGlu(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.w12 = nn.Linear(config.width, 2 * config.hidden_width)
        self.w3 = nn.Linear(config.hidden_width, config.width)

    def forward(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        gate, value = keeping_inputs(lambda x: self.w12(norm(x)), x).chunk(2, dim=-1)  # [T, H] each
        return keeping_inputs(lambda gate, value: self.w3(F.silu(gate) * value), gate, value)


class LayerScale(nn.Module):
    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((config.width,), config.layerscale_init))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Block(nn.Module):
    """x += ls1(attn(norm1 x)); x += ls2(mlp(norm2 x)), on packed tokens [T, D].

    With drop path, `attn_rows` and `ffn_rows` [T'] name the tokens that each branch sees. `packing` then describes
    those tokens, and `scales` holds, for each group, all samples over the chosen ones.
    """

    def __init__(self, config: ViTConfig, execution: Execution) -> None:
        super().__init__()
        self.checkpoint = execution.checkpoint_blocks
        self.norm1 = nn.LayerNorm(config.width, eps=NORM_EPSILON)
        self.attn = Attention(config)
        self.ls1 = LayerScale(config)
        self.norm2 = nn.LayerNorm(config.width, eps=NORM_EPSILON)
        self.mlp = Mlp(config) if config.ffn == "mlp" else SwiGlu(config)
        self.ls2 = LayerScale(config)
        # Not forward() itself: what FSDP does before and after a block can't be compiled and would break the graph.
        self._compiled = torch.compile(self._run) if execution.compile else None

    def forward(
        self,
        x: Tensor,
        packing: Packing,
        attn_rows: Tensor | None = None,
        ffn_rows: Tensor | None = None,
        scales: Scales = (),
    ) -> Tensor:
        run = self._run if self._compiled is None else self._compiled
        if self.checkpoint and torch.is_grad_enabled():
            # Nothing inside is random: the drop-path subsets were drawn before.
            result = checkpoint(
                run, x, packing, attn_rows, ffn_rows, scales, use_reentrant=False, preserve_rng_state=False
            )
            return cast(Tensor, result)
        return run(x, packing, attn_rows, ffn_rows, scales)

    def _run(
        self,
        x: Tensor,
        packing: Packing,
        attn_rows: Tensor | None,
        ffn_rows: Tensor | None,
        scales: Scales,
    ) -> Tensor:
        branch = self.ls1(self.attn(_chosen(x, attn_rows), packing, self.norm1))
        x = x + branch if attn_rows is None else add_rows(x, branch, attn_rows, packing.sizes, scales)
        branch = self.ls2(self.mlp(_chosen(x, ffn_rows), self.norm2))
        return x + branch if ffn_rows is None else add_rows(x, branch, ffn_rows, packing.sizes, scales)


def _chosen(x: Tensor, rows: Tensor | None) -> Tensor:
    return x if rows is None else x.index_select(0, rows)


def subset_size(samples: int, drop_path: float) -> int:
    """How many of the samples a residual branch runs on."""
    return max(int(samples * (1.0 - drop_path)), 1)


def draw_subsets(
    config: ViTConfig, batch_sizes: Sequence[int], device: torch.device, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Which samples each residual branch of each block sees: for every member of the batch int64 [depth, 2, chosen].

    Along the second dimension: attention, feed-forward. Every member draws its own.
    """
    subsets = []
    for samples in batch_sizes:
        order = torch.rand(config.depth, 2, samples, device=device, generator=generator).argsort(dim=-1)
        subsets.append(order[..., : subset_size(samples, config.drop_path)])
    return subsets


class VisionTransformer(nn.Module):
    """The backbone. `forward` takes one batch of images, `forward_packed` several of different sizes in one pass."""

    def __init__(self, config: ViTConfig, execution: Execution | None = None) -> None:
        super().__init__()
        self.config = config
        self.execution = execution or Execution()
        width = config.width
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + config.grid**2, width))
        if config.registers:
            self.register_tokens = nn.Parameter(torch.empty(1, config.registers, width))
        self.mask_token = nn.Parameter(torch.empty(1, width))
        self.patch_embed = PatchEmbedding(config)
        self.blocks = nn.ModuleList(Block(config, self.execution) for _ in range(config.depth))
        self.norm = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.init_weights()

    def init_weights(self) -> None:
        """Set every parameter, so that a model built on the meta device can be filled after `to_empty`."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm | nn.Conv2d):
                module.reset_parameters()
            elif isinstance(module, LayerScale):
                nn.init.constant_(module.gamma, self.config.layerscale_init)
        nn.init.normal_(self.cls_token, std=1e-6)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.zeros_(self.mask_token)
        if self.config.registers:
            nn.init.normal_(self.register_tokens, std=1e-6)

    def forward(self, images: Tensor, masks: Tensor | None = None, subsets: Tensor | None = None) -> Tokens:
        """images [B, 3, H, W], masks bool [B, N] (true: the patch is replaced by the mask token)."""
        return self.forward_packed([images], [masks], None if subsets is None else [subsets])[0]

    def forward_packed(
        self,
        crops: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        subsets: Sequence[Tensor] | None = None,
    ) -> list[Tokens]:
        """One pass over several batches of images, e.g. [global crops, local crops].

        In train() mode with drop path, `subsets` names the samples that each branch sees (see `draw_subsets`); they are
        drawn from torch's generator of the device when not given.
        """
        return self._layers(crops, masks, subsets, last=1)[0]

    def intermediate(self, images: Tensor, last: int) -> list[Tokens]:
        """The outputs of the last blocks, each through the final norm; the last block's comes last."""
        return [tokens[0] for tokens in self._layers([images], [None], None, last)]

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """The patch tokens of the last blocks on their grid, [B, D, H / patch, W / patch] each, the last one last."""
        grid = images.shape[-2] // self.config.patch_px, images.shape[-1] // self.config.patch_px
        return [tokens.patches.mT.reshape(len(images), -1, *grid) for tokens in self.intermediate(images, last)]

    def _layers(
        self,
        crops: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        subsets: Sequence[Tensor] | None,
        last: int,
    ) -> list[list[Tokens]]:
        if not 1 <= last <= self.config.depth:
            raise ValueError(f"last={last}: this backbone has {self.config.depth} blocks")
        embedded = [self._embed(images, mask) for images, mask in zip(crops, masks, strict=True)]
        shapes = [(e.shape[0], e.shape[1]) for e in embedded]  # (B, 1 + R + N) of every member
        x = torch.cat([e.flatten(0, 1) for e in embedded])  # [T, D]
        backend = chosen_backend(self.execution.attention, x, len(shapes))
        rows: Tensor | None = None
        scales: Scales = ()
        groups = shapes
        if self.training and self.config.drop_path > 0.0:
            if subsets is None:
                subsets = draw_subsets(self.config, [b for b, _ in shapes], x.device)
            rows = _token_rows(subsets, shapes)  # [depth, 2, T']
            groups = [(s.shape[-1], tokens) for s, (_, tokens) in zip(subsets, shapes, strict=True)]
            scales = tuple(samples / chosen for (samples, _), (chosen, _) in zip(shapes, groups, strict=True))
            if self.execution.compile:
                scales = tuple(torch.full((), float(scale), device=x.device) for scale in scales)
        packing = pack(tuple(groups), backend, x.device)
        outputs = []
        for i, block in enumerate(self.blocks):
            x = block(x, packing) if rows is None else block(x, packing, rows[i, 0], rows[i, 1], scales)
            if i >= self.config.depth - last:
                outputs.append(self._tokens(x, shapes))
        return outputs

    def _tokens(self, x: Tensor, shapes: list[tuple[int, int]]) -> list[Tokens]:
        registers = self.config.registers
        members = self.norm(x).split([samples * tokens for samples, tokens in shapes])
        batches = [m.unflatten(0, shape) for m, shape in zip(members, shapes, strict=True)]  # [B, 1 + R + N, D]
        return [Tokens(b[:, 0], b[:, 1 : 1 + registers], b[:, 1 + registers :]) for b in batches]

    def _embed(self, images: Tensor, mask: Tensor | None) -> Tensor:
        """Patches, cls token, positions and registers: [B, 3, H, W] → [B, 1 + R + N, D]."""
        samples, _, height, width = images.shape
        patch_px = self.config.patch_px
        if height % patch_px or width % patch_px:
            raise ValueError(f"images of {height}×{width} pixels don't divide into patches of {patch_px} pixels")
        x = self.patch_embed(images)  # [B, N, D]
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), self.mask_token.to(x.dtype), x)
        x = torch.cat([self.cls_token.expand(samples, -1, -1).to(x.dtype), x], dim=1)
        x = x + self._positions(height // patch_px, width // patch_px).to(x.dtype)
        if self.config.registers:
            registers = self.register_tokens.expand(samples, -1, -1).to(x.dtype)
            x = torch.cat([x[:, :1], registers, x[:, 1:]], dim=1)
        return x

    def _positions(self, rows: int, columns: int) -> Tensor:
        """Position embeddings of the cls token and a rows × columns grid: [1, 1 + N, D], interpolated in fp32."""
        side, offset = self.config.grid, self.config.position_offset
        if rows == columns == side:
            return self.pos_embed
        stored = self.pos_embed.float()
        grid = stored[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)  # [1, D, side, side]
        # The offset also shifts where the samples lie: this is what the official weights were trained with.
        scaled = F.interpolate(
            grid,
            size=(rows, columns) if offset == 0.0 else None,
            scale_factor=None if offset == 0.0 else ((rows + offset) / side, (columns + offset) / side),
            mode="bicubic",
            antialias=self.config.position_antialias,
        )  # [1, D, rows, columns]
        return torch.cat([stored[:, :1], scaled.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def _token_rows(subsets: Sequence[Tensor], shapes: list[tuple[int, int]]) -> Tensor:
    """Rows of the packed tokens that belong to the chosen samples: [depth, 2, T']."""
    rows, first = [], 0
    for chosen, (samples, tokens) in zip(subsets, shapes, strict=True):
        within = torch.arange(tokens, device=chosen.device)
        rows.append((first + chosen.unsqueeze(-1) * tokens + within).flatten(2))  # [depth, 2, chosen·tokens]
        first += samples * tokens
    return torch.cat(rows, dim=2)
