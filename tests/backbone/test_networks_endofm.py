"""The adapter for Endo-FM: a plain ViT when its temporal part is silent, and the temporal part by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from panendofm.backbone.networks import Outputs, find_network
from panendofm.backbone.networks.endofm import EndoFM
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.runtime.errors import UserError

SIZES = {"width": 128, "depth": 2, "hidden": 256, "patch_px": 16, "positions": 5, "frames": 4}


@pytest.fixture
def network() -> EndoFM:
    torch.manual_seed(0)
    model = EndoFM(**SIZES).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return model


@torch.no_grad()
def test_without_time_it_is_timms_vision_transformer(network: EndoFM) -> None:
    ensure_torchvision()
    from timm.models.vision_transformer import VisionTransformer

    for block in network.blocks:
        torch.nn.init.zeros_(block.temporal_fc.weight)
        torch.nn.init.zeros_(block.temporal_fc.bias)
    torch.nn.init.zeros_(network.time_embed)
    theirs = VisionTransformer(
        img_size=32, patch_size=16, embed_dim=128, depth=2, num_heads=2, mlp_ratio=2, num_classes=0, global_pool="token"
    ).eval()
    theirs.load_state_dict({k: v for k, v in network.state_dict().items() if "temporal" not in k and k != "time_embed"})
    images = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(network(images), theirs(images), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_attention_over_one_frame_is_the_general_formula(network: EndoFM) -> None:
    attention, x = network.blocks[0].temporal_attn, torch.randn(2, 4, 128)
    alone = attention(x.reshape(8, 1, 128)).view(2, 4, 128)  # every patch a sequence of one
    torch.testing.assert_close(attention.of_one_token(x), alone)
    before = network(torch.ones(1, 3, 32, 32))
    network.time_embed[:, 0] += torch.randn(128)  # only the first time position counts for one frame
    after = network(torch.ones(1, 3, 32, 32))
    network.time_embed[:, 1:] += torch.randn(128)
    assert not torch.allclose(before, after)
    assert torch.equal(after, network(torch.ones(1, 3, 32, 32)))


def test_a_checkpoint_in_the_authors_layout_is_read(network: EndoFM, tmp_path: Path) -> None:
    state = {f"backbone.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save({"teacher": {**state, "head.mlp.0.weight": torch.zeros(3)}, "epoch": 3}, tmp_path / "lv.pth")
    found = find_network(f"endofm:{tmp_path / 'lv.pth'}")
    assert (found.name, found.preprocessing.crop_px, found.outputs) == ("lv", 32, Outputs(blocks=0, maps=2))
    module = found.load()
    with torch.no_grad():
        images = torch.randn(2, 3, 32, 32)
        torch.testing.assert_close(module(images), network(images))
        before, after = module.feature_maps(images, 2)
    assert before.shape == after.shape == (2, 128, 2, 2) and not torch.allclose(before, after)
    tokens = {}
    network.norm.register_forward_hook(lambda _, __, output: tokens.update(last=output))
    with torch.no_grad():
        network(images)
    assert torch.equal(after[:, :, 1, 0], tokens["last"][:, 1 + 2]), "the third patch lies in the second row"
    del state["backbone.blocks.1.temporal_fc.bias"]
    torch.save({"teacher": state}, tmp_path / "part.pth")
    with pytest.raises(UserError, match=r"part.pth: the tensor 'blocks.1.temporal_fc.bias' is missing"):
        find_network(f"endofm:{tmp_path / 'part.pth'}")
    torch.save({"teacher": {"backbone.cls_token": torch.zeros(1, 1, 8)}}, tmp_path / "other.pth")
    with pytest.raises(UserError, match="it is no Endo-FM checkpoint"):
        find_network(f"endofm:{tmp_path / 'other.pth'}")
    with pytest.raises(UserError, match="does not exist"):
        find_network("endofm:nowhere.pth")
