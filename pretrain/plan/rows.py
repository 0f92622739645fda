"""How many tokens and rows one rank computes at a time."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.backbone import ViTConfig, subset_size
from pretrain.config import PretrainConfig


@dataclass(frozen=True)
class Rows:
    """What one rank computes at a time: tokens of the backbone and rows of the heads."""

    images: int
    student_tokens: int  # of all crops
    global_tokens: int  # of the global crops
    branch_tokens: int  # of the crops that a residual branch sees under drop path
    cls_rows: int
    patch_rows: int  # masked patches, on average; of a distillation all patches


def rows_of(config: PretrainConfig, images: int) -> Rows:
    vit, augment, masks = config.model.vit(), config.augment, config.masks
    crops = 2 * images, augment.local_crops * images
    tokens = tokens_of_crop(vit, augment.global_px), tokens_of_crop(vit, augment.local_px)
    chosen = [subset_size(count, vit.drop_path) if count else 0 for count in crops]
    patches = (augment.global_px // vit.patch_px) ** 2
    masked = int(crops[0] * masks.crop_probability) * patches * (masks.ratio_min + masks.ratio_max) / 2
    return Rows(
        images=images,
        student_tokens=sum(count * size for count, size in zip(crops, tokens, strict=True)),
        global_tokens=crops[0] * tokens[0],
        branch_tokens=sum(count * size for count, size in zip(chosen, tokens, strict=True)),
        cls_rows=sum(crops),
        patch_rows=crops[0] * patches if config.objective.kind == "distill" else round(masked),
    )


def tokens_of_crop(vit: ViTConfig, side_px: int) -> int:
    return 1 + vit.registers + (side_px // vit.patch_px) ** 2
