"""The architecture of given weights as keys of `model`."""

from __future__ import annotations

from dataclasses import replace

from panendofm.backbone import ViTConfig, architecture_name, vit_config, vit_names
from panendofm.runtime.errors import UserError


def model_words(vit: ViTConfig) -> list[str]:
    """Such that `pretrain` builds a backbone of exactly this form."""
    wanted = replace(vit, drop_path=0.0)
    changes = {
        "image_px": wanted.image_px,
        "width": wanted.width,
        "depth": wanted.depth,
        "heads": wanted.heads,
        "layerscale_init": wanted.layerscale_init,
    }
    for name in vit_names():
        if vit_config(name).patch_px == wanted.patch_px and vit_config(name, **changes) == wanted:
            words = {"attention_heads" if key == "heads" else key: value for key, value in changes.items()}
            return [f"model.name={name}", *(f"model.{key}={value}" for key, value in words.items())]
    raise UserError(f"weights: adapt can't train the architecture {architecture_name(vit)}; use a DINOv2 backbone.")
