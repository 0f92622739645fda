"""Small weights of every family of networks, and the words that name them. Every stage must take every word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from panendofm.backbone import VisionTransformer, ensure_torchvision, vit_config
from panendofm.backbone.networks.endofm import EndoFM


def write_network_words(folder: Path, golden: Path) -> dict[str, str]:
    """Name → word."""
    ensure_torchvision()
    import timm
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(1)
    torch.save(VisionTransformer(vit_config("vit_test")).state_dict(), folder / "small.pt")
    network = timm.create_model("resnet10t", num_classes=5)
    save_file(network.state_dict(), folder / "resnet.safetensors")
    hub = folder / "hub"
    hub.mkdir()
    shutil.copy(folder / "resnet.safetensors", hub / "model.safetensors")
    config = {"architecture": "resnet10t", "pretrained_cfg": {"crop_pct": 0.5, "input_size": [3, 64, 64]}}
    (hub / "config.json").write_text(json.dumps(config))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ViTModel(ViTConfig(**sizes, image_size=32, patch_size=16)).save_pretrained(folder / "tiny")
    video = EndoFM(width=64, depth=1, hidden=64, patch_px=16, positions=5, frames=2)
    for parameter in video.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    torch.save({"teacher": {f"backbone.{k}": v for k, v in video.state_dict().items()}}, folder / "endofm.pth")
    (folder / "vits_colono").mkdir()
    shutil.copy(golden / "endossl_flax.msgpack", folder / "vits_colono" / "checkpoint_0")
    return {
        "small": str(folder / "small.pt"),
        "resnet10t": f"timm:resnet10t@{folder / 'resnet.safetensors'}",
        "resnet10t-2": f"timm:{hub}",
        "tiny": f"transformers:{folder / 'tiny'}",
        "endofm": f"endofm:{folder / 'endofm.pth'}",
        "vits_colono": f"endossl:{folder / 'vits_colono' / 'checkpoint_0'}",
        "pixels": "pixels",
        "global-features": "global-features",
        "untrained-vit_test": "untrained:vit_test",
        "untrained-vit_test-2": f"untrained:{folder / 'small.pt'}",
    }
