"""The ViT and its weights: what a downstream user imports."""

from backbone.config import ViTConfig, architecture_name, vit_config, vit_names
from backbone.load import LoadedBackbone, load_backbone
from backbone.preprocessing import Preprocessing
from backbone.vit import Execution, Tokens, VisionTransformer, draw_subsets

__all__ = [
    "Execution",
    "LoadedBackbone",
    "Preprocessing",
    "Tokens",
    "ViTConfig",
    "VisionTransformer",
    "architecture_name",
    "draw_subsets",
    "load_backbone",
    "vit_config",
    "vit_names",
]
