"""Attention over packed sequences: one function, three backends that are chosen by name.

A packed batch is one tensor of tokens [T, …] that holds several groups of equally long sequences one after the other,
e.g. 8 sequences of 257 tokens and 32 of 50. A token attends to its own sequence only.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.backbone.config import AttentionChoice, Backend
from panendofm.runtime.errors import UserError

_FLASH_CAPABILITY = (8, 0)


@dataclass(frozen=True, eq=False)
class Packing:
    """How a packed batch divides into sequences, and what the backend needs to know of it."""

    backend: Backend
    groups: tuple[tuple[int, int], ...]  # (sequences, tokens of each) of every group, in order
    starts: Tensor | None = None  # int32 [sequences + 1], where each sequence begins; for varlen
    block_mask: Any = None  # xformers' BlockDiagonalMask

    @property
    def sizes(self) -> list[int]:
        """Tokens of each group."""
        return [sequences * tokens for sequences, tokens in self.groups]


def pack(groups: tuple[tuple[int, int], ...], backend: Backend, device: torch.device) -> Packing:
    """Prepare a packing once per forward pass, so that the blocks needn't."""
    if backend == "sdpa":
        return Packing(backend, groups)
    if backend == "varlen":
        return Packing(backend, groups, starts=_starts(groups, device))
    from xformers.ops.fmha.attn_bias import BlockDiagonalMask

    lengths = [tokens for sequences, tokens in groups for _ in range(sequences)]
    return Packing(backend, groups, block_mask=BlockDiagonalMask.from_seqlens(lengths, device=device))


def _starts(groups: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Where each sequence begins, and the end; int32 [sequences + 1]. Made on the device, so that nobody waits."""
    parts, first = [], 0
    for sequences, tokens in (*groups, (1, 1)):
        parts.append(torch.arange(first, first + sequences * tokens, tokens, dtype=torch.int32, device=device))
        first += sequences * tokens
    return torch.cat(parts)


def attention(qkv: Tensor, packing: Packing) -> list[Tensor]:
    """softmax(q·kᵀ / √d)·v within each sequence: qkv [T, 3, heads, d] → [T, heads·d].

    In the pieces in which the backend makes it, one after the other: a copy that joins them need not be kept.
    """
    if packing.backend == "sdpa":
        return _sdpa(qkv, packing)
    q, k, v = qkv.unbind(1)  # each [T, heads, d]
    if packing.backend == "varlen":
        from torch.nn.attention.varlen import varlen_attn

        longest = max(tokens for _, tokens in packing.groups)
        assert packing.starts is not None
        mixed = varlen_attn(q, k, v, packing.starts, packing.starts, longest, longest)
        assert isinstance(mixed, Tensor)
        return [mixed.flatten(1)]
    from xformers.ops import memory_efficient_attention

    packed: Tensor = memory_efficient_attention(q[None], k[None], v[None], attn_bias=packing.block_mask)
    return [packed[0].flatten(1)]


def joined(pieces: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def packed_attention(qkv: Tensor, groups: tuple[tuple[int, int], ...], backend: Backend) -> Tensor:
    """The same for who has no packing at hand."""
    return joined(attention(qkv, pack(groups, backend, qkv.device)))


def _sdpa(qkv: Tensor, packing: Packing) -> list[Tensor]:
    mixed = []
    for group, (sequences, tokens) in zip(torch.split(qkv, packing.sizes), packing.groups, strict=True):
        # [S·N, 3, heads, d] → 3 × [S, heads, N, d]
        q, k, v = group.view(sequences, tokens, *group.shape[1:]).permute(2, 0, 3, 1, 4).unbind(0)
        out = _within(q, k, v)  # [S, heads, N, d]
        mixed.append(out.transpose(1, 2).flatten(2).flatten(0, 1))  # [S·N, heads·d]
    return mixed


def _within(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of sequences of one length, [S, heads, N, d] each."""
    if q.device.type == "cpu" and q.dtype.itemsize == 2 and q.requires_grad:
        # The gradient of torch's fused kernel for CPUs is slow in half precision: benchmarks/attention.py compares.
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # [S, heads, N, N]
        mixed: Tensor = scores.softmax(-1) @ v
        return mixed
    return F.scaled_dot_product_attention(q, k, v)


def why_unavailable(backend: Backend, device: torch.device) -> str | None:
    """None when the backend runs on this device; else the reason why it doesn't."""
    if backend == "sdpa":
        return None
    if device.type != "cuda":
        return "it needs a CUDA device"
    if backend == "xformers" and importlib.util.find_spec("xformers") is None:
        return "the package xformers is not installed"
    if backend == "varlen" and importlib.util.find_spec("torch.nn.attention.varlen") is None:
        return f"torch {torch.__version__} does not have it"
    if backend == "varlen" and torch.cuda.get_device_capability(device) < _FLASH_CAPABILITY:
        return "it needs an Ampere GPU or a newer one"
    return None


def chosen_backend(choice: AttentionChoice, x: Tensor, groups: int) -> Backend:
    """The backend for tokens `x` of so many groups, in whatever type autocast will give them.

    A choice that can't run is refused. Sequences of one length need no variable-length kernel, and sdpa costs the host
    less.
    """
    if choice != "auto":
        check_backend(choice, x.device)
        return choice
    if groups == 1:
        return "sdpa"
    kind = x.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
    return "varlen" if dtype.itemsize == 2 and why_unavailable("varlen", x.device) is None else "sdpa"


def check_backend(backend: Backend, device: torch.device) -> None:
    """Raise a `UserError` when the backend doesn't run on this device."""
    reason = why_unavailable(backend, device)
    if reason is not None:
        raise UserError(f"attention={backend} can't run on {device.type}: {reason}; choose attention=sdpa.")
