"""The ViT, its weights, and features of pictures; see `backbone.networks` for other networks, `backbone.release`."""

from backbone.attention import BACKENDS, Backend, packed_attention, why_unavailable
from backbone.config import ViTConfig, architecture_name, vit_config, vit_names
from backbone.feature_cache import FeatureCache
from backbone.features import (
    FeatureKind,
    cleaned,
    device_of,
    extract_features,
    gather_rows,
    rank_and_world,
    share_of,
)
from backbone.load import LoadedBackbone, load_backbone
from backbone.preprocessing import Preprocessing
from backbone.torchvision_shim import ensure_torchvision
from backbone.vit import Execution, Tokens, VisionTransformer, draw_subsets, subset_size

__all__ = [
    "BACKENDS",
    "Backend",
    "Execution",
    "FeatureCache",
    "FeatureKind",
    "LoadedBackbone",
    "Preprocessing",
    "Tokens",
    "ViTConfig",
    "VisionTransformer",
    "architecture_name",
    "cleaned",
    "device_of",
    "draw_subsets",
    "ensure_torchvision",
    "extract_features",
    "gather_rows",
    "load_backbone",
    "packed_attention",
    "rank_and_world",
    "share_of",
    "subset_size",
    "vit_config",
    "vit_names",
    "why_unavailable",
]
