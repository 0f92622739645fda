"""Where in the image the evidence for a class lies: the head's weights on every patch, positive part."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.backbone import Preprocessing
from panendofm.linear_probe.heads.head_run import HeadRun


def patch_evidence(run: HeadRun, images: Tensor) -> Tensor | None:
    """w_c · token_i of each class above its mean over the image [B, C, h, w]; None when the head looks elsewhere.

    What all patches share (a part of the bias, in truth) says nothing about a place, so it is taken away.
    Of a ViT the map is its patch tokens, through the same final norm as the cls token. The part of the head that is
    used is its last one: the mean patch token where it has that, else the last block's cls token.
    """
    if not run.network.outputs.maps:
        return None
    weight = run.head.weight  # [D, C]
    images = images.to(run.device)  # [B, 3, H, W]
    with torch.no_grad():
        if hasattr(run.module, "grid"):  # the feature itself lies in the image (pixels)
            grid: Tensor = run.module.grid(images).float().cpu()  # type: ignore[operator]
            return _above_mean(torch.einsum("bdhw,cdhw->bchw", grid, weight.T.reshape(-1, *grid.shape[1:])))
        back = -min(run.head.info.kind.blocks, default=-1)  # the block that the head reads, 1 is the last
        maps: Tensor = run.module.feature_maps(images, back)[0].float().cpu()  # type: ignore[operator]
    channels = maps.shape[1]
    if len(weight) % channels:
        return None
    return _above_mean(torch.einsum("bdhw,dc->bchw", maps, weight[-channels:]))


def _above_mean(evidence: Tensor) -> Tensor:
    return F.relu(evidence - evidence.mean(dim=(2, 3), keepdim=True))


def weighted_center(evidence: Tensor) -> tuple[float, float] | None:
    """Center (x, y) in [0, 1] of a map [h, w]; None when there is no evidence."""
    total = float(evidence.sum())
    if total <= 0:
        return None
    height, width = evidence.shape
    x = float((evidence.sum(0) * (torch.arange(width) + 0.5)).sum()) / total / width
    y = float((evidence.sum(1) * (torch.arange(height) + 0.5)).sum()) / total / height
    return x, y


def in_whole_image(
    point: tuple[float, float], size: tuple[int, int], preprocessing: Preprocessing
) -> tuple[float, float]:
    """From the part that the network sees to the whole image of `size` (width, height), both in [0, 1]."""
    width, height = size
    short = min(width, height)
    resized = (
        (preprocessing.resize_px, preprocessing.resize_px)
        if preprocessing.squash
        else (int(preprocessing.resize_px * width / short), int(preprocessing.resize_px * height / short))
    )
    side = preprocessing.crop_px
    found = [(round((r - side) / 2) + p * side) / r for p, r in zip(point, resized, strict=True)]
    return min(max(found[0], 0.0), 1.0), min(max(found[1], 0.0), 1.0)
