"""Parameters of a run, counted on the objective itself, and the rows that a rank computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from backbone import VisionTransformer, ViTConfig
from backbone.vit import subset_size
from pretrain.config import PretrainConfig
from pretrain.objective import Objective


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters. The teacher has as many as the student."""

    backbone: int
    dino_head: int
    ibot_head: int  # 0 when patches share the DINO head
    anchor: int  # Gram anchor, 0 when it is off
    largest_unit: int  # of the units that FSDP gathers one by one

    @property
    def student(self) -> int:
        return self.backbone + self.dino_head + self.ibot_head


def count_parameters(config: PretrainConfig) -> Parameters:
    """From the real objective, built without memory for its tensors."""
    with torch.device("meta"):
        objective = Objective(config.model.vit(), config.objective)
    parts = {name: _count(module) for name, module in objective.student.items()}
    backbone = cast(VisionTransformer, objective.student["backbone"])
    blocks = [_count(block) for block in backbone.blocks]
    heads = [count for name, count in parts.items() if name != "backbone"]
    return Parameters(
        backbone=parts["backbone"],
        dino_head=parts["dino_head"],
        ibot_head=parts.get("ibot_head", 0),
        anchor=_count(objective.gram_anchor) if objective.gram_anchor is not None else 0,
        largest_unit=max(*blocks, *heads, parts["backbone"] - sum(blocks)),
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@dataclass(frozen=True)
class Rows:
    """What one rank computes at a time: images, crops, tokens and rows of the heads."""

    images: int
    local_crops: int
    global_tokens: int  # of one global crop
    local_tokens: int
    student_tokens: int  # of all crops
    branch_tokens: int  # of the crops that a residual branch sees under drop path
    teacher_tokens: int
    cls_rows: int
    patch_rows: int  # masked patches, on average


def rows_of(config: PretrainConfig, images: int) -> Rows:
    vit, augment = config.model.vit(), config.augment
    global_tokens = _tokens(vit, augment.global_px)
    local_tokens = _tokens(vit, augment.local_px)
    crops = 2 * images, augment.local_crops * images
    chosen = [subset_size(count, vit.drop_path) if count else 0 for count in crops]
    masked_crops = int(crops[0] * config.masks.crop_probability)
    mean_ratio = (config.masks.ratio_min + config.masks.ratio_max) / 2
    patches = global_tokens - 1 - vit.registers
    return Rows(
        images=images,
        local_crops=augment.local_crops,
        global_tokens=global_tokens,
        local_tokens=local_tokens,
        student_tokens=crops[0] * global_tokens + crops[1] * local_tokens,
        branch_tokens=chosen[0] * global_tokens + chosen[1] * local_tokens,
        teacher_tokens=crops[0] * global_tokens,
        cls_rows=sum(crops),
        patch_rows=round(masked_crops * mean_ratio * patches),
    )


def _tokens(vit: ViTConfig, image_px: int) -> int:
    return (image_px // vit.patch_px) ** 2 + 1 + vit.registers
