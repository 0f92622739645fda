"""Multi-crop augmentation: random parameters are drawn once per image; colours are changed here or on the device."""

from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.cpu import augment_jpeg, crops_of, prepare_jpeg
from pretrain.data.augment.params import AugmentParams, draw_params

__all__ = ["AugmentConfig", "AugmentParams", "augment_jpeg", "crops_of", "draw_params", "prepare_jpeg"]
