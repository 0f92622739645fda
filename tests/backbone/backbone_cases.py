"""Small models and checkpoints for the tests of this folder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from panendofm.backbone import VisionTransformer, ViTConfig
from panendofm.runtime.files import write_json

Pair = tuple[torch.Tensor, torch.Tensor]


def random_model(config: ViTConfig, seed: int = 0) -> VisionTransformer:
    """All parameters random and large enough to matter: a mix-up of any two tensors changes the features."""
    torch.manual_seed(seed)
    model = VisionTransformer(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gamma"):
                parameter.uniform_(0.1, 0.5)
            elif "norm" in name or name.endswith("bias") or name == "mask_token":
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            elif name.endswith(("token", "tokens")) or name == "pos_embed":
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    return model


def save_checkpoint(model: VisionTransformer, folder: Path, step: int = 7, certificate: Any = None) -> Path:
    """A checkpoint folder as training writes it; the student differs from the teacher, and there are heads."""
    weights = model.state_dict()
    state = {
        "teacher": {f"backbone.{k}": v for k, v in weights.items()} | {"dino_head.last_layer.weight_g": torch.ones(3)},
        "student": {f"backbone.{k}": v + 1 for k, v in weights.items()},
        "optimizer": {"step": step},
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.save(state, checkpoint_id=folder, no_dist=True)
    description = {"format": 1, "step": step, "vit": model.config.to_dict(), "certificate": certificate}
    write_json(folder / "checkpoint.json", description)
    return folder


@torch.no_grad()
def largest_difference(ours: VisionTransformer, theirs: VisionTransformer, side_px: int = 56) -> float:
    images = torch.randn(2, 3, side_px, side_px, generator=torch.Generator().manual_seed(5))
    a, b = ours(images), theirs(images)
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True) if x.numel())
