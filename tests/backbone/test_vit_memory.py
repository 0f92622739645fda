"""What a block keeps for the backward pass, and that keeping less changes no bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from panendofm.backbone import Execution, ViTConfig, vit_config
from panendofm.backbone.attention import Packing, joined, pack
from panendofm.backbone.attention import attention as attend
from panendofm.backbone.vit import Block, Mlp

GROUPS = ((3, 17), (4, 5))  # sequences and their tokens, as after drop path
TOKENS = 3 * 17 + 4 * 5
ALL_TOKENS = 5 * 17 + 6 * 5
SCALES = (5 / 3, 6 / 4)
TYPES = [torch.float32, torch.bfloat16]


def block_of(config: ViTConfig, execution: Execution | None = None) -> Block:
    torch.manual_seed(0)
    block = Block(config, execution or Execution())
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return block


def rows_of_branches() -> list[Tensor]:
    """Tokens of the chosen samples, in no order: [T'] for attention and for the feed-forward layer."""
    chosen = [([4, 0, 3], [5, 1, 0, 2]), ([1, 2, 0], [3, 4, 5, 0])]
    return [
        torch.cat([torch.arange(17) + 17 * i for i in large] + [torch.arange(5) + 85 + 5 * i for i in small])
        for large, small in chosen
    ]


def plain(block: Block, x: Tensor, packing: Packing, rows: list[Tensor] | None) -> Tensor:
    """The block as anybody would write it, with torch's own gradients."""
    for branch in (0, 1):
        seen = x if rows is None else x[rows[branch]]
        added = _attention(block, seen, packing) if branch == 0 else _feed_forward(block, seen)
        if rows is None:
            x = x + added
            continue
        for at, part, scale in zip(
            rows[branch].split(packing.sizes), added.float().split(packing.sizes), SCALES, strict=True
        ):
            x = x.index_add(0, at, part, alpha=scale)
    return x


def _attention(block: Block, x: Tensor, packing: Packing) -> Tensor:
    qkv = block.attn.qkv(block.norm1(x)).unflatten(1, (3, block.attn.heads, -1))  # [T', 3, heads, d]
    return block.ls1(block.attn.proj(joined(attend(qkv, packing))))


def _feed_forward(block: Block, x: Tensor) -> Tensor:
    if isinstance(block.mlp, Mlp):
        return block.ls2(block.mlp.fc2(F.gelu(block.mlp.fc1(block.norm2(x)))))
    gate, value = block.mlp.w12(block.norm2(x)).chunk(2, dim=-1)
    return block.ls2(block.mlp.w3(F.silu(gate) * value))


def results(block: Block, output: Tensor, x: Tensor) -> dict[str, Tensor]:
    """The output, and its gradients by the input and by every parameter."""
    names, parameters = zip(*block.named_parameters(), strict=True)
    weights = torch.linspace(-1, 1, output.numel()).view_as(output)
    gradients = torch.autograd.grad((output * weights).sum(), (x, *parameters))
    return dict(zip(("output", "x", *names), (output.detach(), *gradients), strict=True))


@pytest.mark.parametrize("checkpoint_blocks", [False, True])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("ffn", ["mlp", "swiglu"])
@pytest.mark.parametrize("number_type", TYPES)
def test_values_and_gradients_are_those_of_plain_autograd(
    number_type: torch.dtype, ffn: str, drops: bool, checkpoint_blocks: bool
) -> None:
    block = block_of(vit_config("vit_test", ffn=ffn), Execution(checkpoint_blocks=checkpoint_blocks))
    packing = pack(GROUPS, "sdpa", torch.device("cpu"))
    x = torch.randn(ALL_TOKENS if drops else TOKENS, 32).requires_grad_()  # [T, D]
    rows = rows_of_branches() if drops else None
    with torch.autocast("cpu", torch.bfloat16, enabled=number_type == torch.bfloat16):
        ours = block(x, packing) if rows is None else block(x, packing, *rows, SCALES)
        theirs = plain(block, x, packing, rows)
    expected = results(block, theirs, x)
    for name, value in results(block, ours, x).items():
        assert value.dtype == expected[name].dtype and torch.equal(value, expected[name]), name


def test_no_matrix_product_is_computed_twice() -> None:
    block, x = block_of(vit_config("vit_test")), torch.randn(ALL_TOKENS, 32)
    packing, rows = pack(GROUPS, "sdpa", torch.device("cpu")), rows_of_branches()
    counts = []
    for output_of in (lambda: block(x, packing, *rows, SCALES), lambda: plain(block, x, packing, rows)):
        with FlopCounterMode(display=False) as counter:
            output_of().sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("ffn", ["mlp", "swiglu"])
@pytest.mark.parametrize("number_type", TYPES)
def test_only_inputs_of_dear_operations_are_kept(number_type: torch.dtype, ffn: str) -> None:
    """The inputs of both norms; q, k, v and attention; what LayerScale and GELU or SwiGLU start from.

    Of attention itself the log-sums are kept, or its weights where it is made of products: in bfloat16 on a CPU.
    """
    config = vit_config("vit_test", ffn=ffn)
    block, x = block_of(config), torch.randn(ALL_TOKENS, 32).requires_grad_()
    of_parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.dim() > 1 and tensor.shape[-1] > 1 and storage.data_ptr() not in of_parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=number_type == torch.bfloat16),
    ):
        output = block(x, pack(GROUPS, "sdpa", torch.device("cpu")), *rows_of_branches(), SCALES)
    hidden = config.hidden_width * (1 if ffn == "mlp" else 2)
    assert output.requires_grad
    log_sums = TOKENS * config.heads * 4
    weights = sum(sequences * config.heads * tokens**2 for sequences, tokens in GROUPS) * 2
    of_attention = log_sums if number_type == torch.float32 else weights
    assert sum(kept.values()) == TOKENS * (2 * 32 * 4 + (6 * 32 + hidden) * number_type.itemsize) + of_attention
