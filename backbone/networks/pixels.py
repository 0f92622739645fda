"""`pixels`: the picture itself as its feature. What a network has to beat."""

from __future__ import annotations

import hashlib

import torch.nn.functional as F
from torch import Tensor, nn

from backbone.networks.network import Description, Loaded, Outputs, Source
from backbone.preprocessing import Preprocessing

_SIDE = 16


class Pixels(nn.Module):
    """The crop, averaged down to 16 × 16 colours: [B, 3, H, W] → [B, 3 · 16 · 16]."""

    def forward(self, images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(images, _SIDE).flatten(1)

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        return [F.adaptive_avg_pool2d(images, _SIDE)]  # [B, 3, 16, 16]


def pixels_source() -> Source:
    return Source("pixels", _read, baseline=True)


def _read() -> Loaded:
    checksum = hashlib.sha256(f"pixels {_SIDE}, averaged over the crop".encode()).hexdigest()
    architecture = f"{_SIDE}x{_SIDE} pixels"
    return Loaded(Pixels().eval(), Description(architecture, checksum, Preprocessing(), Outputs(maps=1)))
