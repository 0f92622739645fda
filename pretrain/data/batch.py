"""One rank's batch: crops in crop-major order, masks, and where the masked patches lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from panendofm.backbone import Preprocessing
from panendofm.runtime.errors import UserError
from pretrain.data.augment.photometric import PhotometricPlan, colored
from pretrain.data.masking import BoolArray

_BYTE_MEAN = torch.tensor(Preprocessing.mean).mul(255).tolist()
_BYTE_STD = torch.tensor(Preprocessing.std).mul(255).tolist()


@dataclass
class Batch:
    """Crop-major: all images' first crops, then all images' second crops, and so on."""

    global_crops: Tensor  # [2B, 3, H, W]
    local_crops: Tensor  # [L·B, 3, h, w]; L may be 0
    masks: Tensor  # [2B, N] bool
    masked_positions: Tensor  # [M] where masks.flatten() is true; made here, so that the GPU need not be waited for
    masked_weights: Tensor  # [M] 1 / masked patches of the same crop
    # What is still to be done to the colors of the global and of the local crops, on the device; None: nothing.
    photometric: tuple[PhotometricPlan, ...] | None = None
    rows: Tensor | None = None  # [B] which image of the shards each is
    # [C] sorted rows of the images that take part in instance classification, all of the step's among them; None: all.
    classes: Tensor | None = None
    microgroups: int = 1  # of equal size, one after another; KoLeo looks for neighbors within a microgroup

    @property
    def images(self) -> int:
        return len(self.global_crops) // 2

    @property
    def local_crops_per_image(self) -> int:
        return len(self.local_crops) // self.images

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, from which it travels to a GPU while that computes."""
        return replace(
            self,
            global_crops=self.global_crops.pin_memory(),
            local_crops=self.local_crops.pin_memory(),
            masks=self.masks.pin_memory(),
            masked_positions=self.masked_positions.pin_memory(),
            masked_weights=self.masked_weights.pin_memory(),
            rows=None if self.rows is None else self.rows.pin_memory(),
            classes=None if self.classes is None else self.classes.pin_memory(),
            photometric=None if self.photometric is None else tuple(plan.pin_memory() for plan in self.photometric),
        )

    def to(self, device: torch.device | str) -> Batch:
        """The batch on `device`, its 8-bit crops finished and normalized there: a quarter of the bytes travel."""
        crops = [crops.to(device, non_blocking=True) for crops in (self.global_crops, self.local_crops)]
        if self.photometric is not None:
            crops = [colored(own, plan) for own, plan in zip(crops, self.photometric, strict=True)]
        return Batch(
            normalize(crops[0]),
            normalize(crops[1]),
            self.masks.to(device, non_blocking=True),
            self.masked_positions.to(device, non_blocking=True),
            self.masked_weights.to(device, non_blocking=True),
            rows=None if self.rows is None else self.rows.to(device, non_blocking=True),
            classes=None if self.classes is None else self.classes.to(device, non_blocking=True),
            microgroups=self.microgroups,
        )


def make_batch(global_crops: Tensor, local_crops: Tensor, masks: BoolArray | Tensor) -> Batch:
    """A batch from crop-major crops [2B, 3, H, W] and [L·B, 3, h, w] and masks [2B, N]."""
    if len(global_crops) == 0 or len(global_crops) % 2:
        raise UserError(f"a batch holds two global crops per image, these are {len(global_crops)} crops.")
    if len(local_crops) % (len(global_crops) // 2):
        raise UserError(
            f"{len(local_crops)} local crops do not divide evenly over {len(global_crops) // 2} images; "
            "give every image the same number."
        )
    masks = torch.as_tensor(masks)
    if len(masks) != len(global_crops):
        raise UserError(f"{len(masks)} masks do not fit {len(global_crops)} global crops; give one mask per crop.")
    positions = masks.flatten().nonzero().flatten()  # [M]
    per_crop = masks.sum(dim=1)  # [2B]
    weights = (1.0 / per_crop.clamp_min(1))[:, None].expand_as(masks)[masks]  # [M]
    return Batch(global_crops, local_crops, masks, positions, weights)


def collate(
    samples: Sequence[tuple[Sequence[np.ndarray], Sequence[np.ndarray]]], masks: BoolArray, local_px: int = 98
) -> Batch:
    """A batch from per-image (global crops, local crops), each crop an array [H, W, 3] of bytes."""
    global_crops = _crop_major([sample[0] for sample in samples])
    local_crops = _crop_major([sample[1] for sample in samples])
    if local_crops is None:
        local_crops = torch.zeros(0, 3, local_px, local_px, dtype=torch.uint8)
    if global_crops is None:
        raise UserError("a batch needs at least one image.")
    return make_batch(global_crops, local_crops, masks)


def _crop_major(crops: Sequence[Sequence[np.ndarray]]) -> Tensor | None:
    """Per-image lists of crops [H, W, 3] → [crops·B, 3, H, W] with the crop as the slow index."""
    ordered = [crop for same_crop in zip(*crops, strict=True) for crop in same_crop]
    if not ordered:
        return None
    return torch.from_numpy(np.stack(ordered)).permute(0, 3, 1, 2).contiguous()


def normalize(crops: Tensor) -> Tensor:
    """Bytes 0…255 → ImageNet-normalised floats; float crops are taken as normalized already."""
    if crops.dtype != torch.uint8:
        return crops
    # Filled on the device: the host would wait for numbers of its own to get there.
    mean, std = (
        torch.stack([torch.full((1, 1), value, device=crops.device) for value in values])  # [3, 1, 1]
        for values in (_BYTE_MEAN, _BYTE_STD)
    )
    return crops.float().sub_(mean).div_(std)
