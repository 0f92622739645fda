"""Sizes, initial values and interpolated positions."""

from __future__ import annotations

import pytest
import torch

from panendofm.backbone import VisionTransformer, architecture_name, vit_config, vit_names
from panendofm.runtime.errors import UserError

# Of the released files.
PARAMETERS = {
    "vit_small_patch14": 22_056_576,
    "vit_base_patch14": 86_580_480,
    "vit_large_patch14": 304_368_640,
    "vit_large_patch14_reg4": 304_372_736,
    "vit_giant_patch14": 1_136_480_768,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts(name: str) -> None:
    with torch.device("meta"):
        model = VisionTransformer(vit_config(name))
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize(("name", "tensors"), [("vit_large_patch14", 343), ("vit_large_patch14_reg4", 344)])
def test_official_keys(name: str, tensors: int) -> None:
    with torch.device("meta"):
        state = VisionTransformer(vit_config(name)).state_dict()
    assert len(state) == tensors
    assert state["pos_embed"].shape == (1, 1370, 1024)
    assert state["mask_token"].shape == (1, 1024)
    assert state["patch_embed.proj.weight"].shape == (1024, 3, 14, 14)
    assert state["blocks.23.mlp.fc1.weight"].shape == (4096, 1024)
    assert ("register_tokens" in state) == name.endswith("reg4")


def test_a_meta_model_is_filled_completely() -> None:
    with torch.device("meta"):
        model = VisionTransformer(vit_config("vit_test_patch14_reg4", ffn="swiglu"))
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    model.init_weights()
    for name, parameter in model.named_parameters():
        assert not parameter.isnan().any(), name


@torch.no_grad()
def test_initial_values() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(vit_config("vit_tiny_patch14_reg4", depth=2))
    for name, parameter in model.named_parameters():
        if "qkv.weight" in name or ("fc" in name and name.endswith("weight")) or name == "pos_embed":
            assert 0.019 < float(parameter.std()) < 0.021, name
        elif name.startswith("patch_embed"):
            assert float(parameter.abs().max()) <= (3 * 14 * 14) ** -0.5, name
        elif "gamma" in name:
            assert torch.all(parameter == 1e-5), name
        elif name.endswith("bias") or name == "mask_token":
            assert torch.all(parameter == 0), name
        elif "norm" in name:
            assert torch.all(parameter == 1), name
        elif name in ("cls_token", "register_tokens"):
            assert 0 < float(parameter.abs().max()) < 1e-5, name


def test_positions_of_other_grids_by_offset_and_by_size() -> None:
    """The two ways of interpolation differ, and both leave the cls position alone."""
    torch.manual_seed(0)
    by_size = VisionTransformer(vit_config("vit_test", position_offset=0.0))
    by_offset = VisionTransformer(vit_config("vit_test"))
    by_offset.load_state_dict(by_size.state_dict())
    for model in (by_size, by_offset):
        assert model._positions(4, 4) is model.pos_embed
        assert model._positions(2, 7).shape == (1, 15, 32)
        assert torch.equal(model._positions(2, 7)[:, 0], model.pos_embed[:, 0])
    assert not torch.allclose(by_size._positions(6, 6), by_offset._positions(6, 6), atol=1e-4)
    square_count = by_size._positions(2, 8)  # as many patches as are stored, but not in a square
    assert not torch.equal(square_count, by_size.pos_embed)


def test_positions_are_interpolated_in_fp32() -> None:
    model = VisionTransformer(vit_config("vit_test")).to(torch.bfloat16)
    assert model._positions(6, 6).dtype == torch.float32
    assert model(torch.randn(1, 3, 84, 84, dtype=torch.bfloat16)).cls.dtype == torch.bfloat16


def test_images_must_divide_into_patches() -> None:
    with pytest.raises(ValueError, match=r"60×56 pixels don't divide into patches of 14"):
        VisionTransformer(vit_config("vit_test"))(torch.zeros(1, 3, 60, 56))


@pytest.mark.parametrize("name", vit_names())
def test_names_go_both_ways(name: str) -> None:
    expected = "vit_test" if name == "vit_test_patch14" else name
    assert architecture_name(vit_config(name, drop_path=0.4)) == expected


def test_other_sizes_get_a_name_that_spells_them() -> None:
    config = vit_config("vit_small_patch14", depth=5, ffn="swiglu")
    assert architecture_name(config) == "vit_w384_d5_h6_patch14_518px_swiglu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "width 384 is not a multiple of the 5 heads"),
        ({"image_px": 500}, "image_px=500 is not a multiple of patch_px=14"),
        ({"drop_path": 1.0}, "'drop_path' is 1.0"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        vit_config("vit_small_patch14", **changes)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown backbone 'vit_huge'.*vit_large_patch14"):
        vit_config("vit_huge")


@pytest.mark.slow
def test_vit_large_forward() -> None:
    torch.manual_seed(0)
    model = VisionTransformer(vit_config("vit_large_patch14")).eval()
    with torch.no_grad():
        tokens = model(torch.randn(1, 3, 224, 224))
    assert tokens.cls.shape == (1, 1024) and tokens.patches.shape == (1, 256, 1024)
    assert torch.isfinite(tokens.patches).all()
