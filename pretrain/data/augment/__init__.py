"""Multi-crop augmentation: one plan of random values per image, applied on the CPU or in batches on the GPU."""

from pretrain.data.augment.config import AugmentConfig, augment_preset
from pretrain.data.augment.cpu import augment_jpeg, crops_of
from pretrain.data.augment.params import Plan, draw_plan

__all__ = ["AugmentConfig", "Plan", "augment_jpeg", "augment_preset", "crops_of", "draw_plan"]
