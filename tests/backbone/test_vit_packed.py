"""One packed pass over several crop sizes gives what separate passes give."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.backbone import Backend, Execution, Tokens, VisionTransformer, ViTConfig, draw_subsets, vit_config
from panendofm.backbone.attention import check_backend, pack, packed_attention, why_unavailable
from panendofm.backbone.vit import subset_size
from panendofm.runtime.errors import UserError

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BACKENDS = [b for b in get_args(Backend) if why_unavailable(b, DEVICE) is None]


def make_model(config: ViTConfig, execution: Execution | None = None) -> VisionTransformer:
    """A model with weights large enough that every branch matters (LayerScale starts at 1e-5 otherwise)."""
    torch.manual_seed(0)
    model = VisionTransformer(config, execution)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.to(DEVICE)


def make_batch() -> tuple[list[Tensor], list[Tensor | None]]:
    generator = torch.Generator().manual_seed(1)
    crops = [torch.randn(5, 3, 56, 56, generator=generator), torch.randn(7, 3, 28, 42, generator=generator)]
    return [c.to(DEVICE) for c in crops], [(torch.rand(5, 16, generator=generator) < 0.4).to(DEVICE), None]


def loss_of(tokens: list[Tokens]) -> Tensor:
    """A loss that looks at every token, differently at each."""
    total = torch.zeros((), device=DEVICE)
    for member in tokens:
        for part in member:
            weights = torch.linspace(-1, 1, part.numel(), device=DEVICE).view_as(part)
            total = total + (part * weights).sum() / 100
    return total


def gradients(model: VisionTransformer, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("drop_path", [0.0, 0.4])
@pytest.mark.parametrize("name", ["vit_test", "vit_test_patch14_reg4"])
def test_packed_equals_separate(backend: Backend, drop_path: float, name: str) -> None:
    config = vit_config(name, drop_path=drop_path)
    model = make_model(config, Execution(attention=backend)).train()
    crops, masks = make_batch()
    subsets = draw_subsets(config, [5, 7], DEVICE, torch.Generator(DEVICE).manual_seed(2)) if drop_path else None

    packed = model.forward_packed(crops, masks, subsets)
    separate = [model(c, m, subsets[i] if subsets else None) for i, (c, m) in enumerate(zip(crops, masks, strict=True))]
    for ours, theirs in zip(packed, separate, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    ours, theirs = gradients(model, loss_of(packed)), gradients(model, loss_of(separate))
    for key in ours:
        # The gradient of the keys' bias is zero in exact arithmetic: absolute tolerance.
        scale = max(float(theirs[key].abs().max()), 1.0)
        assert float((ours[key] - theirs[key]).abs().max()) / scale < 1e-5, key


def test_drop_path_is_the_textbook_sum() -> None:
    """A branch runs on the chosen samples only and is scaled by all over chosen: spelled out sample by sample."""
    config = vit_config("vit_test", drop_path=0.4, depth=1)
    model = make_model(config).train()
    images = make_batch()[0][0]
    subsets = draw_subsets(config, [5], DEVICE, torch.Generator(DEVICE).manual_seed(3))[0]
    assert subsets.shape == (1, 2, 3)
    block, scale = model.blocks[0], 5 / 3
    expected = []
    for i in range(5):
        x = model._embed(images[i : i + 1], None)[0]  # [1 + N, D]
        packing = pack(((1, len(x)),), "sdpa", DEVICE)
        if i in subsets[0, 0]:
            x = x + scale * block.ls1(block.attn(x, packing, block.norm1))
        if i in subsets[0, 1]:
            x = x + scale * block.ls2(block.mlp(x, block.norm2))
        expected.append(model.norm(x)[0])
    torch.testing.assert_close(model(images, None, subsets).cls, torch.stack(expected), rtol=1e-5, atol=1e-5)


def test_eval_mode_has_no_drop_path() -> None:
    crops, masks = make_batch()
    dropping = make_model(vit_config("vit_test", drop_path=0.5)).eval()
    plain = make_model(vit_config("vit_test")).eval()
    for ours, theirs in zip(dropping.forward_packed(crops, masks), plain.forward_packed(crops, masks), strict=True):
        assert torch.equal(ours.cls, theirs.cls)


def test_drawn_subsets_follow_the_seed() -> None:
    model = make_model(vit_config("vit_test", drop_path=0.5)).train()
    crops, masks = make_batch()

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model.forward_packed(crops, masks)[1].cls

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_subsets_are_distinct_samples_of_the_right_number() -> None:
    assert [subset_size(b, 0.3) for b in (1, 2, 10, 64)] == [1, 1, 7, 44]
    config = vit_config("vit_test", drop_path=0.3)
    for samples, subset in zip((10, 4), draw_subsets(config, [10, 4], torch.device("cpu")), strict=True):
        assert subset.shape == (3, 2, subset_size(samples, 0.3))
        for row in subset.flatten(0, 1):
            assert len(set(row.tolist())) == len(row) and int(row.min()) >= 0 and int(row.max()) < samples
    a, b = draw_subsets(config, [64, 64], torch.device("cpu"))
    assert not torch.equal(a, b), "every member draws its own subset"
    assert not torch.equal(a[0, 0], a[0, 1]) and not torch.equal(a[0, 0], a[1, 0]), "and every branch its own"


@pytest.mark.parametrize("execution", [Execution(checkpoint_blocks=True)])
def test_execution_options_keep_the_numbers(execution: Execution) -> None:
    _same_numbers(execution)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint_blocks", [False, True])
def test_compiled_blocks_keep_the_numbers(checkpoint_blocks: bool) -> None:
    _same_numbers(Execution(compile=True, checkpoint_blocks=checkpoint_blocks))


def _same_numbers(execution: Execution) -> None:
    config = vit_config("vit_test", drop_path=0.4)
    plain, optioned = make_model(config).train(), make_model(config, execution).train()
    assert plain.state_dict().keys() == optioned.state_dict().keys()
    crops, masks = make_batch()
    subsets = draw_subsets(config, [5, 7], DEVICE)
    ours, theirs = optioned.forward_packed(crops, masks, subsets), plain.forward_packed(crops, masks, subsets)
    torch.testing.assert_close(ours[0].cls, theirs[0].cls, rtol=1e-5, atol=1e-5)
    a, b = gradients(optioned, loss_of(ours)), gradients(plain, loss_of(theirs))
    for key in a:
        torch.testing.assert_close(a[key], b[key], rtol=1e-4, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}")


def test_checkpointing_recomputes() -> None:
    """The option does something: a block's forward runs again in the backward pass."""
    calls: list[int] = []
    model = make_model(vit_config("vit_test"), Execution(checkpoint_blocks=True)).train()
    model.blocks[1].mlp.fc1.register_forward_hook(lambda *_: calls.append(1))
    loss = model(make_batch()[0][0]).cls.square().sum()
    assert len(calls) == 1
    loss.backward()
    assert len(calls) == 2


def test_blocks_are_called_as_modules() -> None:
    """Sharding hangs its hooks on the blocks' __call__, in the plain and in the packed pass."""
    model = make_model(vit_config("vit_test"))
    seen: list[int] = []
    for i, block in enumerate(model.blocks):
        block.register_forward_pre_hook(lambda *_, i=i: seen.append(i))
    crops, masks = make_batch()
    model(crops[0])
    model.forward_packed(crops, masks)
    assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_stays_within_a_sequence(backend: Backend) -> None:
    """Against one dense attention with a block-diagonal mask."""
    groups = ((3, 5), (2, 7))
    dtype = torch.float32 if backend != "varlen" else torch.bfloat16
    qkv = torch.randn(29, 3, 2, 8, device=DEVICE).to(dtype)
    sequence = torch.tensor([0] * 5 + [1] * 5 + [2] * 5 + [3] * 7 + [4] * 7, device=DEVICE)
    q, k, v = (t.transpose(0, 1)[None] for t in qkv.unbind(1))  # [1, heads, T, d]
    dense = F.scaled_dot_product_attention(q, k, v, attn_mask=sequence[:, None] == sequence)
    expected = dense[0].transpose(0, 1).flatten(1)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    ours = packed_attention(qkv, groups, backend)
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


def test_half_precision_on_the_cpu_has_the_gradient_of_full_precision() -> None:
    """There attention is made of products, whose scale and softmax are ours to get right."""
    torch.manual_seed(0)
    exact = torch.randn(3 * 5 + 2 * 7, 3, 2, 8, requires_grad=True)
    half = exact.detach().bfloat16().requires_grad_()
    found = []
    for qkv in (exact, half):
        mixed = packed_attention(qkv, ((3, 5), (2, 7)), "sdpa")
        weights = torch.linspace(-1, 1, mixed.numel()).view_as(mixed)
        (gradient,) = torch.autograd.grad((mixed * weights).sum(), qkv)
        found.append((mixed, gradient))
    for ours, expected in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours.float(), expected, rtol=2e-2, atol=2e-2)


def test_sequence_starts_of_the_variable_length_backend() -> None:
    packing = pack(((3, 5), (2, 7)), "varlen", torch.device("cpu"))
    assert packing.starts is not None and packing.starts.dtype == torch.int32
    assert packing.starts.tolist() == [0, 5, 10, 15, 22, 29]


@pytest.mark.parametrize("backend", ["xformers", "varlen"])
def test_a_backend_that_cannot_run_is_refused_by_name(backend: Backend) -> None:
    with pytest.raises(UserError, match=f"attention={backend} can't run on cpu.*attention=sdpa"):
        check_backend(backend, torch.device("cpu"))


def test_a_copy_runs_on_its_own_weights() -> None:
    """Teachers are deep copies of students, also of compiled ones."""
    model = make_model(vit_config("vit_test"), Execution(checkpoint_blocks=True)).eval()
    images = make_batch()[0][0]
    before = model(images).cls
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(twin(images).cls, before)
