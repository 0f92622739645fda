"""Every attention backend of this machine: against the formula, the golden files and separate passes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from launch.doctor.rows import Row, judged
from panendofm.backbone import (
    BACKENDS,
    AttentionChoice,
    Backend,
    Execution,
    Tokens,
    VisionTransformer,
    ViTConfig,
    draw_subsets,
    packed_attention,
    vit_config,
    why_unavailable,
)
from pretrain.selftest import golden_step_errors

GOLDEN = Path(__file__).resolve().parent / "golden"
_NETWORKS = {"vit_plain": vit_config("vit_test"), "vit_registers_antialias": vit_config("vit_test_patch14_reg4")}
_STEP = GOLDEN / "step_sinkhorn_separate_heads.npz"
_GROUPS = ((3, 17), (5, 5))  # sequences, tokens of each
# Relative to the largest value. bfloat16 has 8 bits: 0.4% a rounding, some of them in a row.
_TOLERANCES = {
    torch.float32: {"formula": 1e-4, "golden forward": 1e-4, "packed": 1e-4, "golden step": 1e-4, "gradients": 1e-3},
    torch.bfloat16: {"formula": 3e-2, "golden forward": 5e-2, "packed": 5e-2, "golden step": 5e-2, "gradients": 0.15},
}


def check_attention(device: torch.device, wanted: AttentionChoice) -> Iterator[Row]:
    for backend in BACKENDS:
        reason = why_unavailable(backend, device)
        if reason is None:
            yield from _check_backend(backend, device)
        elif backend == wanted:
            remedy = "choose execution.attention=sdpa, or install the package on a machine with a GPU"
            yield Row(f"attention {backend}", "fail", f"the config asks for it, but {reason}", remedy)
        else:
            yield Row(f"attention {backend}", "skip", reason)


def _check_backend(backend: Backend, device: torch.device) -> Iterator[Row]:
    for number_type, tolerances in _TOLERANCES.items():
        if backend == "varlen" and number_type == torch.float32:
            continue  # it has none
        name = str(number_type).removeprefix("torch.")
        # On a GPU convolutions would round to TF32, which is right for training and hides what is looked for here.
        with torch.backends.cudnn.flags(allow_tf32=False):
            errors = _errors(backend, number_type, device)
        wrong = {kind: error for kind, error in errors.items() if not error <= tolerances[kind]}
        found = ", ".join(f"{kind} {error:.0e}" for kind, error in (wrong or errors).items())
        other = "sdpa" if backend != "sdpa" else "another version of torch or of the driver"
        remedy = f"this backend computes wrongly here: choose {other}, and report it with doctor.json"
        yield judged(f"attention {backend} {name}", not wrong, f"errors: {found}", remedy, errors=errors)


def _errors(backend: Backend, number_type: torch.dtype, device: torch.device) -> dict[str, float]:
    step = golden_step_errors(
        _STEP, device, "float32" if number_type == torch.float32 else "bfloat16", Execution(attention=backend)
    )
    return {
        "formula": _formula_error(backend, number_type, device),
        "golden forward": max(_golden_error(name, backend, number_type, device) for name in _NETWORKS),
        "packed": _packed_error(backend, number_type, device),
        "golden step": step["losses"],
        "gradients": step["gradients"],
    }


def _formula_error(backend: Backend, number_type: torch.dtype, device: torch.device) -> float:
    """Output and gradient against softmax(q·kᵀ / √d)·v, spelled out in double precision, sequence by sequence."""
    tokens = sum(count * length for count, length in _GROUPS)
    drawn = torch.randn(tokens, 3, 4, 8, generator=torch.Generator().manual_seed(0))  # [T, 3, heads, d]
    qkv = drawn.to(device, number_type).requires_grad_()
    weights = torch.linspace(-1, 1, tokens * 32, device=device).view(tokens, 32)
    out = packed_attention(qkv, _GROUPS, backend)  # [T, heads·d]
    (gradient,) = torch.autograd.grad((out * weights).sum(), qkv)
    exact = qkv.detach().double().requires_grad_()
    parts, first = [], 0
    for count, length in _GROUPS:
        for _ in range(count):
            q, k, v = exact[first : first + length].permute(1, 2, 0, 3)  # each [heads, N, d]
            mixed = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v
            parts.append(mixed.transpose(0, 1).flatten(1))
            first += length
    expected = torch.cat(parts)
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), exact)
    return max(_error(out, expected), _error(gradient, expected_gradient))


@torch.no_grad()
def _golden_error(name: str, backend: Backend, number_type: torch.dtype, device: torch.device) -> float:
    """Tokens of whole images and of masked ones against the reference implementation's."""
    with np.load(GOLDEN / f"{name}.npz") as stored:
        arrays = {key: torch.from_numpy(stored[key]).to(device) for key in stored.files}
    model = VisionTransformer(_NETWORKS[name], Execution(attention=backend)).eval().to(device)
    model.load_state_dict({k.removeprefix("weights/"): a for k, a in arrays.items() if k.startswith("weights/")})
    with torch.autocast(device.type, torch.bfloat16, enabled=number_type == torch.bfloat16):
        plain, masked = model(arrays["input"]), model(arrays["input"], arrays["mask"])
    pairs = [(plain.cls, "cls"), (plain.patches, "patch"), (masked.cls, "masked_cls"), (masked.patches, "masked_patch")]
    return max(_error(tokens, arrays[key]) for tokens, key in pairs)


def _packed_error(backend: Backend, number_type: torch.dtype, device: torch.device) -> float:
    """Two sizes of crops in one pass with drop path, forward and backward, against separate passes by sdpa."""
    config = vit_config("vit_test", drop_path=0.4)
    generator = torch.Generator().manual_seed(1)
    sizes = ((5, 56), (7, 28))
    crops = [torch.randn(count, 3, side, side, generator=generator).to(device) for count, side in sizes]
    masks = [(torch.rand(5, 16, generator=generator) < 0.4).to(device), None]
    subsets = [s.to(device) for s in draw_subsets(config, [5, 7], torch.device("cpu"), generator)]
    with torch.autocast(device.type, torch.bfloat16, enabled=number_type == torch.bfloat16):
        model = _network(config, backend).to(device)
        packed = _tokens_and_gradients(model, model.forward_packed(crops, masks, subsets))
        plain = _network(config, "sdpa").to(device)
        parts = zip(crops, masks, subsets, strict=True)
        separate = _tokens_and_gradients(plain, [plain(c, m, s) for c, m, s in parts])
    return max(_error(a, b) for a, b in zip(packed, separate, strict=True))


def _network(config: ViTConfig, backend: Backend) -> VisionTransformer:
    """Weights large enough that every branch matters; the same ones for every backend."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = VisionTransformer(config, Execution(attention=backend))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.train()


def _tokens_and_gradients(model: VisionTransformer, members: list[Tokens]) -> list[Tensor]:
    tokens = [part for member in members for part in (member.cls, member.patches)]
    weighted = [(part * torch.linspace(-1, 1, part.numel(), device=part.device).view_as(part)).sum() for part in tokens]
    weights = [parameter for name, parameter in model.named_parameters() if name.endswith("qkv.weight")]
    gradients = torch.autograd.grad(torch.stack(weighted).sum(), weights)
    return [*tokens, *gradients]


def _error(found: Tensor, expected: Tensor) -> float:
    """max|a − b| / max|b|; NaN counts as infinitely wrong."""
    found, expected = found.detach().double(), expected.detach().double()
    difference = (found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
    return float(difference) if bool(difference.isfinite()) else math.inf
