"""The ViT and its weights: what a downstream user imports."""

from backbone.config import ViTConfig, architecture_name, vit_config, vit_names
from backbone.vit import Execution, Tokens, VisionTransformer, draw_subsets

__all__ = [
    "Execution",
    "Tokens",
    "ViTConfig",
    "VisionTransformer",
    "architecture_name",
    "draw_subsets",
    "vit_config",
    "vit_names",
]
