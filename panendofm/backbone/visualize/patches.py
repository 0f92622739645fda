"""`show`: what a backbone sees in some images, as one image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from panendofm.backbone.networks import Network
from panendofm.backbone.vit import Block, VisionTransformer
from panendofm.imaging.images import open_image
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file


@torch.no_grad()
def patches_and_attention(model: VisionTransformer, images: Tensor) -> tuple[Tensor, Tensor]:
    """Final patch features [B, N, D], and how much the cls token attends to each patch in the last block [B, heads, N].

    The last block's query and key are caught on their way: attention backends don't hand out their weights.
    """
    caught: list[Tensor] = []
    attention = cast(Block, model.blocks[-1]).attn
    handle = attention.qkv.register_forward_hook(lambda module, inputs, output: caught.append(output))
    try:
        tokens = model(images)
    finally:
        handle.remove()
    qkv = caught[0].view(len(images), -1, 3, attention.heads, model.config.width // attention.heads)  # [B, T, 3, h, d]
    query, key = qkv[:, 0, 0], qkv[:, :, 1]  # cls token's query [B, h, d], all keys [B, T, h, d]
    weights = (torch.einsum("bhd,bthd->bht", query, key) * query.shape[-1] ** -0.5).softmax(dim=-1)
    return tokens.patches, weights[..., 1 + model.config.registers :]


def principal_colors(patches: Tensor) -> Tensor:
    """The first three principal components of all images' patches together, each scaled to 0…1: [B, N, 3]."""
    flat = patches.flatten(0, 1).double()
    centered = flat - flat.mean(dim=0)
    _, _, directions = torch.linalg.svd(centered, full_matrices=False)
    # A direction's sign is arbitrary: let its largest entry be positive, so that the image is the same every time.
    largest = directions[:3].gather(1, directions[:3].abs().argmax(dim=1, keepdim=True))
    scores = centered @ (directions[:3] * largest.sign()).T  # [B·N, 3]
    low, high = scores.quantile(0.01, dim=0), scores.quantile(0.99, dim=0)
    colors: Tensor = ((scores - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return colors.view(*patches.shape[:2], 3).float()


@torch.no_grad()
def show(network: Network, paths: Sequence[Path], out: Path) -> None:
    """An image with a row per image: the image, the PCA of its last feature map in colors, the cls token's attention.

    Only a backbone of our own kind tells its attention; of other networks the first two columns are drawn.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    preprocessing = network.preprocessing
    if not network.outputs.maps:
        raise UserError(f"{network.name} gives one vector per image and no feature maps to show; name another network.")
    images = [open_image(path) for path in paths]
    module, batch = network.load(), torch.stack([preprocessing(p) for p in images])
    columns: list[tuple[str, NDArray[Any]]] = []
    if isinstance(module, VisionTransformer):
        patches, attention = _on_grid(module, batch)
        columns = [("attention of cls", attention.mean(dim=1).numpy())]
    else:
        patches = module.feature_maps(batch)[-1].permute(0, 2, 3, 1)  # type: ignore[operator]
    colors = principal_colors(patches.flatten(1, 2)).view(*patches.shape[:3], 3).numpy()
    columns = [("PCA of patches", colors), *columns]
    width = 1 + len(columns)
    size = (3 * width, 3 * len(paths))
    figure, axes = pyplot.subplots(len(paths), width, figsize=size, squeeze=False, layout="constrained")
    for row, path in enumerate(paths):
        _draw(axes[row, 0], np.asarray(preprocessing.crop(images[row])), path.name[:32])
        for column, (title, shown) in enumerate(columns, 1):
            _draw(axes[row, column], shown[row], title if row == 0 else "")
    with atomic_file(out) as stream:
        figure.savefig(stream, format=out.suffix.lstrip(".") or "png", dpi=110)
    pyplot.close(figure)


def _on_grid(model: VisionTransformer, batch: Tensor) -> tuple[Tensor, Tensor]:
    """Patch features [B, h, w, D] and attention [B, heads, h, w]."""
    side, patch_px = batch.shape[-1], model.config.patch_px
    if side % patch_px:
        raise UserError(f"a crop of {side} px does not divide into patches of {patch_px} px.")
    patches, attention = patches_and_attention(model, batch)
    rows = side // patch_px
    return patches.view(len(batch), rows, rows, -1), attention.view(len(batch), -1, rows, rows)


def _draw(axis: Any, pixels: NDArray[Any], title: str) -> None:
    axis.imshow(pixels, interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
