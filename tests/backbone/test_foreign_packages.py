"""The same weights give the same features in ours, in timm and in transformers, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from backbone_cases import random_model
from safetensors.torch import save_file
from torch import Tensor

from panendofm.backbone import VisionTransformer, ViTConfig, load_backbone, vit_config
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.backbone.weights.foreign import timm_arguments, timm_name, to_timm, to_transformers, transformers_config

ensure_torchvision()
import timm  # noqa: E402
import transformers  # noqa: E402

TOLERANCE = 1e-5
TEST_SIZES = {
    "mlp": vit_config("vit_test"),
    "registers": vit_config("vit_test_patch14_reg4"),
    "swiglu": vit_config("vit_test", ffn="swiglu"),
    "swiglu_registers": vit_config("vit_test_patch14_reg4", ffn="swiglu"),
    "patch16": vit_config("vit_test_patch16", heads=2, depth=2),
}


def as_timm(config: ViTConfig) -> Any:
    return timm.create_model(timm_name(config), **timm_arguments(config)).eval()


def as_transformers(config: ViTConfig) -> Any:
    values = transformers_config(config)
    model_class = getattr(transformers, values["architectures"][0])
    return model_class(model_class.config_class(**values)).eval()


def timm_tokens(model: Any, images: Tensor) -> Tensor:
    return model.forward_features(images)


def transformers_tokens(model: Any, images: Tensor) -> Tensor:
    return model(pixel_values=images).last_hidden_state


def our_tokens(model: VisionTransformer, images: Tensor) -> Tensor:
    tokens = model(images)
    return torch.cat([tokens.cls[:, None], tokens.registers, tokens.patches], dim=1)


def relative(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max() / b.abs().max())


PACKAGES: dict[str, tuple[Callable[[ViTConfig], Any], Callable[[Any, Tensor], Tensor]]] = {
    "timm": (as_timm, timm_tokens),
    "transformers": (as_transformers, transformers_tokens),
}


def exported(ours: VisionTransformer, package: str, folder: Path) -> Any:
    """Their model with our weights; strict loading by their own code."""
    config = ours.config
    theirs = PACKAGES[package][0](config)
    if package == "timm":
        theirs.load_state_dict(to_timm(ours.state_dict()), strict=True)
        return theirs
    save_file(to_transformers(ours.state_dict()), folder / "model.safetensors", {"format": "pt"})
    theirs, report = type(theirs).from_pretrained(folder, config=theirs.config, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    return theirs.eval()


@torch.no_grad()
def export_and_compare(config: ViTConfig, package: str, side_px: int, folder: Path) -> float:
    ours = random_model(config)
    theirs = exported(ours, package, folder)
    images = torch.randn(1, 3, side_px, side_px, generator=torch.Generator().manual_seed(1))
    return relative(our_tokens(ours, images), PACKAGES[package][1](theirs, images))


@torch.no_grad()
def import_and_compare(config: ViTConfig, package: str, side_px: int, folder: Path) -> float:
    """Their weights, saved as their users do, in our model."""
    build, tokens_of = PACKAGES[package]
    torch.manual_seed(3)
    theirs = build(config)
    for parameter in theirs.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=0.05)
    if package == "timm":
        torch.save(theirs.state_dict(), folder / "timm.pth")
        path = folder / "timm.pth"
    else:
        theirs.save_pretrained(folder)
        path = folder
    ours = load_backbone(path, config if package == "timm" else None).model
    assert ours.config.heads == config.heads and ours.config.ffn == config.ffn
    images = torch.randn(1, 3, side_px, side_px, generator=torch.Generator().manual_seed(1))
    return relative(our_tokens(ours, images), tokens_of(theirs, images))


@pytest.mark.parametrize("compare", [export_and_compare, import_and_compare])
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("case", TEST_SIZES)
def test_small_sizes(case: str, package: str, compare: Callable[..., float], tmp_path: Path) -> None:
    config = TEST_SIZES[case]
    assert compare(config, package, config.image_px, tmp_path) < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize("package", PACKAGES)
def test_the_comparison_sees_every_tensor(package: str, tmp_path: Path) -> None:
    """The differences are often exactly zero, as all three call the same kernels: so show that any change is seen."""
    ours = random_model(vit_config("vit_test_patch14_reg4"))
    theirs = exported(ours, package, tmp_path)
    images = torch.randn(1, 3, 56, 56, generator=torch.Generator().manual_seed(1))
    expected = PACKAGES[package][1](theirs, images)
    assert relative(our_tokens(ours, images), expected) < TOLERANCE
    for name, parameter in ours.named_parameters():
        saved = parameter.clone()
        parameter.add_(torch.randn_like(parameter), alpha=0.05)
        difference = relative(our_tokens(ours, images), expected)
        # Without a mask the mask token has no part in the features.
        assert difference < TOLERANCE if name == "mask_token" else difference > 10 * TOLERANCE, name
        parameter.copy_(saved)


@pytest.mark.parametrize("package", PACKAGES)
def test_register_models_agree_at_other_image_sizes(package: str, tmp_path: Path) -> None:
    """Register models interpolate positions by size and antialiased everywhere, also in timm and transformers."""
    assert export_and_compare(vit_config("vit_test_patch14_reg4"), package, 98, tmp_path) < TOLERANCE


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "package"), [("vit_small_patch14", "timm"), ("vit_small_patch14_reg4", "transformers")]
)
def test_vit_small(name: str, package: str, tmp_path: Path) -> None:
    """Out and in again at full size: our weights in their model, then the file that their model saves in ours.

    Every package with and without registers is compared at small sizes above.
    """
    ours = random_model(vit_config(name))
    theirs = exported(ours, package, tmp_path)
    images = torch.randn(1, 3, 518, 518, generator=torch.Generator().manual_seed(1))
    expected = PACKAGES[package][1](theirs, images)
    assert relative(our_tokens(ours, images), expected) < TOLERANCE
    path = tmp_path / "theirs"
    torch.save(theirs.state_dict(), path) if package == "timm" else theirs.save_pretrained(path)
    back = load_backbone(path)
    assert back.architecture == name
    assert relative(our_tokens(back.model, images), expected) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("compare", [export_and_compare, import_and_compare])
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", ["vit_large_patch14", "vit_large_patch14_reg4"])
def test_vit_large(name: str, package: str, compare: Callable[..., float], tmp_path: Path) -> None:
    config = vit_config(name)
    difference = compare(config, package, config.image_px, tmp_path)
    print(f"{name} {package} {compare.__name__}: {difference:.1e}")
    assert difference < TOLERANCE


@pytest.mark.parametrize("name", ["vit_small_patch14", "vit_base_patch14_reg4", "vit_giant_patch14"])
def test_timm_knows_the_architectures_by_name(name: str) -> None:
    """Our arguments change nothing of timm's own definition of a released architecture."""
    config = vit_config(name)
    with torch.device("meta"):
        plain = timm.create_model(timm_name(config), num_classes=0)
        ours = timm.create_model(timm_name(config), **timm_arguments(config))
    assert {k: v.shape for k, v in plain.state_dict().items()} == {k: v.shape for k, v in ours.state_dict().items()}
    assert plain.blocks[0].attn.num_heads == ours.blocks[0].attn.num_heads


def test_the_shim_leaves_other_import_errors_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('something else is broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(RuntimeError, match="something else"):
        ensure_torchvision()
