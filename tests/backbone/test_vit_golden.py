"""The backbone computes what the reference computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from panendofm.backbone import VisionTransformer, ViTConfig, vit_config

CONFIGS: dict[str, ViTConfig] = {
    "plain": vit_config("vit_test"),
    "interpolated_offset": vit_config("vit_test"),
    "registers_antialias": vit_config("vit_test_patch14_reg4"),
    "swiglu": vit_config("vit_test", ffn="swiglu"),
}
TOLERANCE = 1e-5


def relative(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max() / theirs.abs().max())


@pytest.fixture(params=CONFIGS)
def case(request: pytest.FixtureRequest, golden: Path) -> tuple[VisionTransformer, dict[str, torch.Tensor]]:
    with np.load(golden / f"vit_{request.param}.npz") as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    model = VisionTransformer(CONFIGS[request.param]).eval()
    weights = {name.removeprefix("weights/"): a for name, a in arrays.items() if name.startswith("weights/")}
    model.load_state_dict(weights, strict=True)
    return model, arrays


@torch.no_grad()
def test_forward(case: tuple[VisionTransformer, dict[str, torch.Tensor]]) -> None:
    model, arrays = case
    tokens = model(arrays["input"])
    assert relative(tokens.cls, arrays["cls"]) < TOLERANCE
    assert relative(tokens.patches, arrays["patch"]) < TOLERANCE
    assert tokens.registers.shape == (2, model.config.registers, model.config.width)


@torch.no_grad()
def test_masked(case: tuple[VisionTransformer, dict[str, torch.Tensor]]) -> None:
    model, arrays = case
    tokens = model(arrays["input"], arrays["mask"])
    assert relative(tokens.cls, arrays["masked_cls"]) < TOLERANCE
    assert relative(tokens.patches, arrays["masked_patch"]) < TOLERANCE


@torch.no_grad()
def test_intermediate(case: tuple[VisionTransformer, dict[str, torch.Tensor]]) -> None:
    model, arrays = case
    layers = model.intermediate(arrays["input"], last=2)
    assert len(layers) == 2
    for i, tokens in enumerate(layers):
        assert relative(tokens.cls, arrays[f"intermediate/{i}/cls"]) < TOLERANCE
        assert relative(tokens.patches, arrays[f"intermediate/{i}/patch"]) < TOLERANCE


@torch.no_grad()
def test_training_mode_without_drop_path_changes_nothing(
    case: tuple[VisionTransformer, dict[str, torch.Tensor]],
) -> None:
    model, arrays = case
    assert relative(model.train()(arrays["input"]).cls, arrays["cls"]) < TOLERANCE
