"""Run with a torch that is built for CUDA, on a machine without a GPU: a forward pass on tensors that have a device, a
shape and a type, and no content. An operation on tensors of two devices fails as it would on a GPU, and so does a step
that looks at a number, for which it would have to wait.

    python fake_cuda.py CONFIG FAULT key=value …
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from panendofm.runtime.config import load_config
from pretrain.config import PretrainConfig
from pretrain.data.augment import draw_params
from pretrain.data.augment.photometric import plan_of
from pretrain.data.batch import Batch, make_batch
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.drop_path import DropPath

IMAGES = 32  # of one microgroup: a rank's share of the shipped recipe
CUDA = torch.device("cuda", 0)


def batch_of(config: PretrainConfig) -> Batch:
    """As the loader gives it, in main memory: bytes, and masks of both kinds of crops."""
    augment, patches = config.augment, (config.augment.global_px // config.model.vit().patch_px) ** 2
    masks = torch.zeros(2 * IMAGES, patches, dtype=torch.bool)
    masks[::2, : patches // 3] = True
    crops = [
        torch.zeros(count * IMAGES, 3, side, side, dtype=torch.uint8)
        for count, side in ((2, augment.global_px), (augment.local_crops, augment.local_px))
    ]
    batch = make_batch(crops[0], crops[1], masks)
    if augment.where == "gpu":
        drawn = [draw_params(augment, 640, 512, 0, 0, key, None) for key in range(IMAGES)]
        parts = slice(0, 2), slice(2, 2 + augment.local_crops)
        batch.photometric = tuple(plan_of(drawn, part, augment) for part in parts)
    return batch


def forward(config: PretrainConfig, fault: str) -> dict[str, Any]:
    batch = batch_of(config)
    drawn = DropPath(config.model.vit(), IMAGES, config.augment.local_crops, 0).draw(1.0, 0, range(1))
    with torch.device("meta"):  # as a run builds it
        objective = DinoObjective(config.model.vit(), config.trained_objective, config.execution)
    with FakeTensorMode(allow_non_fake_inputs=False) as fake:
        for name in ("global_crops", "local_crops", "masks", "masked_positions", "masked_weights"):
            setattr(batch, name, fake.from_tensor(getattr(batch, name)))
        if batch.photometric is not None:
            batch.photometric = tuple(
                replace(plan, rows=fake.from_tensor(plan.rows), values=fake.from_tensor(plan.values))
                for plan in batch.photometric
            )
        objective._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=CUDA))
        on_device = batch.to(CUDA)
        if fault == "mask in main memory":
            on_device.masks = batch.masks
        subsets = None if drawn is None else [fake.from_tensor(chosen).to(CUDA) for chosen in drawn]
        losses = objective(on_device, 0.05, drop_path=subsets)
        if fault == "a loss is read":
            losses["total"].item()
        return {name: loss.device for name, loss in losses.items()}


if __name__ == "__main__":
    words = ["run.dir=x", "data.shards=y", *sys.argv[3:]]
    shipped = load_config(PretrainConfig, sys.argv[1], words)
    began = time.process_time()
    devices = forward(shipped, sys.argv[2])
    assert set(devices.values()) == {CUDA}, devices
    seconds = time.process_time() - began
    print(f"torch {torch.__version__}: {shipped.model.name}, {IMAGES} images, {len(devices)} losses, {seconds:.1f} s")
