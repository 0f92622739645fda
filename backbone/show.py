"""`show`: what a backbone sees in some images, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backbone.load import LoadedBackbone
from backbone.vit import Block, VisionTransformer
from runtime.errors import UserError
from runtime.files import atomic_file
from runtime.images import open_image


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


def principal_colours(patches: Tensor) -> Tensor:
    """The first three principal components of all images' patches together, each scaled to 0…1: [B, N, 3]."""
    flat = patches.flatten(0, 1).double()
    centred = flat - flat.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    # A direction's sign is arbitrary: let its largest entry be positive, so that the picture is the same every time.
    largest = directions[:3].gather(1, directions[:3].abs().argmax(dim=1, keepdim=True))
    scores = centred @ (directions[:3] * largest.sign()).T  # [B·N, 3]
    low, high = scores.quantile(0.01, dim=0), scores.quantile(0.99, dim=0)
    colours: Tensor = ((scores - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return colours.view(*patches.shape[:2], 3).float()


def show(loaded: LoadedBackbone, paths: Sequence[Path], out: Path) -> None:
    """A picture with a row per image: the image, the PCA of its patches in colours, the cls token's attention."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    preprocessing, config = loaded.preprocessing, loaded.model.config
    if preprocessing.crop_px % config.patch_px:
        raise UserError(f"a crop of {preprocessing.crop_px} px does not divide into patches of {config.patch_px} px.")
    pictures = [open_image(path) for path in paths]
    patches, attention = patches_and_attention(loaded.model, torch.stack([preprocessing(p) for p in pictures]))
    side = preprocessing.crop_px // config.patch_px
    colours = principal_colours(patches).unflatten(1, (side, side)).numpy()  # type: ignore[no-untyped-call]
    heat = attention.mean(dim=1).view(-1, side, side).numpy()
    figure, axes = pyplot.subplots(len(paths), 3, figsize=(9, 3 * len(paths)), squeeze=False, layout="constrained")
    for row, path in enumerate(paths):
        _draw(axes[row, 0], np.asarray(preprocessing.crop(pictures[row])), path.name[:32])
        _draw(axes[row, 1], colours[row], "PCA of patches" if row == 0 else "")
        _draw(axes[row, 2], heat[row], "attention of cls" if row == 0 else "")
    with atomic_file(out) as stream:
        figure.savefig(stream, format=out.suffix.lstrip(".") or "png", dpi=110)
    pyplot.close(figure)


def _draw(axis: Any, pixels: NDArray[Any], title: str) -> None:
    axis.imshow(pixels, interpolation="nearest")
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
