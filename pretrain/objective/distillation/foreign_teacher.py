"""A frozen network of another family, e.g. DINOv3 or SigLIP of timm or transformers, that a student learns from.

It is no part of the objective's state: every rank holds it whole, and checkpoints hold its checksum alone. Its own
layers may keep tensors that no state dict names (rotary positions), which sharding would lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from panendofm.backbone import Preprocessing, Tokens
from panendofm.backbone.networks import find_network
from panendofm.runtime.errors import UserError


class ForeignTeacher(nn.Module):
    """Crops [B, 3, s, s] as the student sees them -> cls [B, T], patches [B, N, T'] on the student's grid."""

    scale: Tensor  # [3, 1, 1]
    shift: Tensor  # [3, 1, 1]

    def __init__(self, network: nn.Module, preprocessing: Preprocessing, stride_px: int, patch_px: int) -> None:
        super().__init__()
        self.network = network
        self.stride_px = stride_px
        self.patch_px = patch_px  # the student's
        own, wanted = Preprocessing(), preprocessing
        # From the student's normalization to the network's: x · scale + shift.
        scale = [a / b for a, b in zip(own.std, wanted.std, strict=True)]
        shift = [(a - b) / c for a, b, c in zip(own.mean, wanted.mean, wanted.std, strict=True)]
        self.register_buffer("scale", torch.tensor(scale)[:, None, None], persistent=False)
        self.register_buffer("shift", torch.tensor(shift)[:, None, None], persistent=False)
        self.requires_grad_(False)
        self.eval()

    def forward(self, crops: Tensor) -> Tokens:
        self.to(crops.device)
        grid = crops.shape[-1] // self.patch_px
        side_px = grid * self.stride_px  # as many patches as the student's crop has
        images = F.interpolate(crops, (side_px, side_px), mode="bicubic", antialias=True)
        vector, patches = cast(Any, self.network).vector_and_map(images * self.scale + self.shift)
        tokens = patches.flatten(2).mT  # [B, N, T]
        return Tokens(vector, tokens[:, :0], tokens)


@dataclass(frozen=True)
class ForeignForm:
    """The network with what is known of it before the first step."""

    teacher: ForeignTeacher
    cls_width: int
    patch_width: int
    flops: float  # of one global crop
    sha256: str


@cache  # several ask, and reading weights takes long
def foreign_form(word: str, patch_px: int, global_px: int) -> ForeignForm:
    network = find_network(word)
    if network.outputs.maps == 0:
        raise UserError(f"distill.teacher={word} gives no features of patches; choose a network that does.")
    module = network.load()
    own_px = network.preprocessing.crop_px
    with torch.no_grad():
        stride_px = own_px // _one_image(module, own_px)[1].shape[-1]
        teacher = ForeignTeacher(module, network.preprocessing, stride_px, patch_px)
        grid = global_px // patch_px
        try:
            vector, patches = _one_image(module, grid * stride_px)
        except (AssertionError, RuntimeError, ValueError) as error:
            raise UserError(
                f"distill.teacher={word} takes no images of {grid * stride_px} px, which would give it the student's "
                f"{grid} × {grid} patches: set augment.global_px={own_px // stride_px * patch_px}."
            ) from error
        if patches.shape[-2:] != (grid, grid):
            raise UserError(
                f"distill.teacher={word} makes {patches.shape[-2]} × {patches.shape[-1]} patches where the student has "
                f"{grid} × {grid}; choose a network whose patches are a grid of equal squares."
            )
        with FlopCounterMode(display=False) as counter:
            _one_image(module, grid * stride_px)
    flops = float(counter.get_total_flops())
    return ForeignForm(teacher, vector.shape[1], patches.shape[1], flops, network.weights_sha256)


def _one_image(module: nn.Module, side_px: int) -> tuple[Tensor, Tensor]:
    """cls [1, T] and the map of patches [1, T', h, w] of a gray image."""
    vector, patches = cast(Any, module).vector_and_map(torch.zeros(1, 3, side_px, side_px))
    return vector, patches
