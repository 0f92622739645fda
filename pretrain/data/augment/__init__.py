"""Multi-crop augmentation: random parameters are drawn once per image, and applied on the CPU or in batches."""

from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.cpu import augment_jpeg, crops_of
from pretrain.data.augment.params import AugmentParams, draw_params

__all__ = ["AugmentConfig", "AugmentParams", "augment_jpeg", "crops_of", "draw_params"]
