"""Attention in bfloat16 on the CPU, forward and backward: explicit products against torch's fused kernel.

    python -m benchmarks.attention [--rounds 5]

Both run alternately in one process on one thread; the clock is the process's CPU time. The value is the ratio of the
medians: above 1 the products are faster. They pay where the processor multiplies bfloat16 itself (AMX, AVX-512 BF16).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.backbone.attention import packed_attention

HEADS = 6
HEAD_WIDTH = 64
# (sequences, tokens of each): global and local crops of 84 and 42 px, global crops of 224 px.
GROUPS = ((32, 41), (64, 14), (16, 261))


def fused(qkv: Tensor, sequences: int, tokens: int) -> Tensor:
    q, k, v = qkv.view(sequences, tokens, 3, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4).unbind(0)
    mixed = F.scaled_dot_product_attention(q, k, v)  # [S, heads, N, d]
    return mixed.transpose(1, 2).flatten(2).flatten(0, 1)  # [S·N, heads·d]


def ours(qkv: Tensor, sequences: int, tokens: int) -> Tensor:
    return packed_attention(qkv, ((sequences, tokens),), "sdpa")


def seconds(function: Callable[[Tensor, int, int], Tensor], sequences: int, tokens: int) -> float:
    shape = (sequences * tokens, 3, HEADS, HEAD_WIDTH)
    qkv = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
    began = time.process_time()
    mixed = function(qkv, sequences, tokens)
    mixed.backward(torch.ones_like(mixed))
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for sequences, tokens in GROUPS:
        times: dict[Callable[[Tensor, int, int], Tensor], list[float]] = {fused: [], ours: []}
        for _ in range(rounds + 1):
            for function, measured in times.items():
                measured.append(seconds(function, sequences, tokens))
        middle = {function: statistics.median(measured[1:]) for function, measured in times.items()}
        print(
            f"{sequences} sequences of {tokens} tokens: fused {1e3 * middle[fused]:.1f} ms, "
            f"products {1e3 * middle[ours]:.1f} ms: {middle[fused] / middle[ours]:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
