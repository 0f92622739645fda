from .attention import packed_attention, why_unavailable
from .config import BACKENDS, AttentionChoice, Backend, Execution, ViTConfig, architecture_name, vit_config, vit_names
from .embed import ImageList
from .feature_cache import FeatureCache
from .features import FeatureKind, cleaned, device_of, extract_features, gather_rows, rank_and_world, share_of
from .lora import LoraLinear, add_adapters, merge_adapters
from .preprocessing import Preprocessing
from .recenter import evenly
from .torchvision_shim import ensure_torchvision
from .vit import Tokens, VisionTransformer, draw_subsets, subset_size
from .weights.checkpoint_folder import SafeReader, read_tensors
from .weights.load import LoadedBackbone, load_backbone

__all__ = [
    "BACKENDS",
    "AttentionChoice",
    "Backend",
    "Execution",
    "FeatureCache",
    "FeatureKind",
    "ImageList",
    "LoadedBackbone",
    "LoraLinear",
    "Preprocessing",
    "SafeReader",
    "Tokens",
    "ViTConfig",
    "VisionTransformer",
    "add_adapters",
    "architecture_name",
    "cleaned",
    "device_of",
    "draw_subsets",
    "ensure_torchvision",
    "evenly",
    "extract_features",
    "gather_rows",
    "load_backbone",
    "merge_adapters",
    "packed_attention",
    "rank_and_world",
    "read_tensors",
    "share_of",
    "subset_size",
    "vit_config",
    "vit_names",
    "why_unavailable",
]
