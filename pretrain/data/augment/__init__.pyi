from .config import AugmentConfig
from .cpu import augment_jpeg, crops_of, prepare_jpeg
from .params import AugmentParams, draw_params

__all__ = [
    "AugmentConfig",
    "AugmentParams",
    "augment_jpeg",
    "crops_of",
    "draw_params",
    "prepare_jpeg",
]
