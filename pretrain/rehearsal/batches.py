"""Batches as the loader makes them, without images: bytes that are zeros, and masks as they are drawn."""

from __future__ import annotations

import torch

from pretrain.config import PretrainConfig
from pretrain.data.augment import draw_params
from pretrain.data.augment.photometric import plan_of
from pretrain.data.batch import Batch, make_batch
from pretrain.data.loader import LoadedBatch
from pretrain.data.masking import masks_of_batch
from pretrain.parallel.world import World
from pretrain.plan.work import ASSUMED_IMAGES

_FRAME_PX = (640, 512)


def batches_of(config: PretrainConfig, world: World, step: int) -> list[LoadedBatch]:
    """One rank's parts of a step, in page-locked memory where it has a GPU."""
    microgroups = config.batch.microgroups_per_rank(world.size)
    parts = []
    for part in range(config.batch.accumulation_steps):
        first = (part * world.size + world.rank) * microgroups
        own = range(first, first + microgroups)
        loaded = LoadedBatch(step, own, batch_of(config, step, own), [], [])
        parts.append(loaded.pin_memory() if world.device.type == "cuda" else loaded)
    return parts


def batch_of(config: PretrainConfig, step: int, microgroups: range) -> Batch:
    augment, vit = config.augment, config.model.vit()
    images = len(microgroups) * config.batch.microgroup_images
    side = augment.global_px // vit.patch_px
    masks = masks_of_batch(
        config.masks, config.batch.microgroup_images, (side, side), config.run.seed, step, microgroups
    )
    crops = [
        torch.zeros(count * images, 3, px, px, dtype=torch.uint8)
        for count, px in ((2, augment.global_px), (augment.local_crops, augment.local_px))
    ]
    batch = make_batch(crops[0], crops[1], masks)
    batch.microgroups = len(microgroups)
    if config.objective.kind == "instance":
        batch.rows = torch.arange(images)
        if config.objective.sampled_from(ASSUMED_IMAGES) is not None:
            batch.classes = torch.arange(config.objective.sampled_classes)
    if augment.where == "gpu":
        drawn = [draw_params(augment, *_FRAME_PX, config.run.seed, step, key, None) for key in range(images)]
        parts = slice(0, 2), slice(2, 2 + augment.local_crops)
        batch.photometric = tuple(plan_of(drawn, part, augment) for part in parts)
    return batch
