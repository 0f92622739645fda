"""`pixels`: the image itself as its feature. What a network has to beat."""

from __future__ import annotations

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone.networks.network import Description, Loaded, Outputs, Source
from panendofm.backbone.preprocessing import Preprocessing

_SIDE = 16
_AROUND = 5  # fields, each way together


class Pixels(nn.Module):
    """The crop, averaged down to 16 × 16 colors: [B, 3, H, W] → [B, 3 · 16 · 16]."""

    def forward(self, images: Tensor) -> Tensor:
        return self.grid(images).flatten(1)

    def grid(self, images: Tensor) -> Tensor:
        """The feature where it lies in the image: [B, 3, 16, 16]."""
        return F.adaptive_avg_pool2d(images, _SIDE)

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        """[B, 77, 16, 16]: the colors of the 5 × 5 fields around each field, and where it lies in the image."""
        colors = self.grid(images)  # [B, 3, 16, 16]
        edge = _AROUND // 2
        around = F.unfold(F.pad(colors, [edge] * 4, mode="replicate"), _AROUND).view(len(images), -1, _SIDE, _SIDE)
        place = torch.linspace(-1, 1, _SIDE, device=images.device).expand(len(images), 1, _SIDE, _SIDE)
        return [torch.cat([around, place, place.mT], dim=1)]


def pixels_source() -> Source:
    return Source("pixels", _read, baseline=True)


def _read() -> Loaded:
    checksum = hashlib.sha256(f"pixels {_SIDE}, averaged over the crop".encode()).hexdigest()
    architecture = f"{_SIDE}x{_SIDE} pixels"
    return Loaded(Pixels().eval(), Description(architecture, checksum, Preprocessing(), Outputs(maps=1)))
