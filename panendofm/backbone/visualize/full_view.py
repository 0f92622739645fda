"""`show whole=true`: PCA and similarity of feature maps at the full resolution of each image, nothing cut off.

The image is squashed to a square for the network and its map is stretched back over the image. A larger
`side_px` gives a finer map, where the network takes other sizes than its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from panendofm.backbone.networks import Network
from panendofm.backbone.visualize.patches import principal_colors
from panendofm.imaging.images import open_image
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file

Pixels = NDArray[np.uint8]  # [H, W, 3]
_GAP_PX = 8


@torch.no_grad()
def whole_map(network: Network, module: nn.Module, image: Image.Image, side_px: int) -> Tensor:
    """The last feature map [C, h, w] of the whole image."""
    preprocessing = replace(network.preprocessing, resize_px=side_px, crop_px=side_px, squash=True)
    try:
        maps: list[Tensor] = module.feature_maps(preprocessing(image)[None])  # type: ignore[operator]
    except (RuntimeError, AssertionError, ValueError, UserError) as error:
        own = network.preprocessing.crop_px
        raise UserError(
            f"side_px={side_px}: {network.name} can't take that side; try {own} or a multiple of its patch."
        ) from error
    return maps[-1][0]


def similarity(feature_map: Tensor, x: float, y: float) -> Tensor:
    """Cosine of every field of [C, h, w] with the field at a place (shares of width and height): [h, w], -1 to 1."""
    _, rows, columns = feature_map.shape
    centered = feature_map - feature_map.mean((1, 2), keepdim=True)  # what all fields share says nothing
    unit = F.normalize(centered.flatten(1), dim=0)  # [C, h·w]
    field = min(int(y * rows), rows - 1) * columns + min(int(x * columns), columns - 1)
    return (unit[:, field] @ unit).view(rows, columns)


def show_whole(
    network: Network,
    paths: Sequence[Path],
    out: Path,
    side_px: int | None = None,
    point: tuple[float, float] | None = None,
) -> None:
    """A row per image, each at its own size: the image, PCA in colors and, for a given point, similarity to it."""
    if not network.outputs.maps:
        raise UserError(f"{network.name} gives one vector per image and no feature maps to show; name another network.")
    module = network.load()
    images = [open_image(path) for path in paths]
    maps = [whole_map(network, module, image, side_px or network.preprocessing.crop_px) for image in images]
    colors = principal_colors(torch.stack([m.flatten(1).mT for m in maps]))  # [B, N, 3]
    rows = []
    for image, feature_map, color in zip(images, maps, colors, strict=True):
        grid = feature_map.shape[1:]
        parts = [np.asarray(image), _stretched(color.view(*grid, 3).numpy(), image)]
        if point is not None:
            x, y = point
            if not (0 <= x < image.width and 0 <= y < image.height):
                raise UserError(f"point=[{x:g},{y:g}] lies outside an image of {image.width} × {image.height} pixels.")
            alike = similarity(feature_map, x / image.width, y / image.height).numpy()
            parts.append(_heat(np.clip(alike, 0, 1), image, (round(x), round(y))))
        rows.append(_joined(parts, axis=1))
    with atomic_file(out) as stream:
        Image.fromarray(_joined(rows, axis=0)).save(stream, format="JPEG" if out.suffix == ".jpg" else "PNG")


def _stretched(values: NDArray[np.float32], image: Image.Image) -> Pixels:
    large = cv2.resize(values, image.size, interpolation=cv2.INTER_LINEAR)
    return np.asarray((np.clip(large, 0, 1) * 255).round(), np.uint8)


def _heat(values: NDArray[np.float32], image: Image.Image, mark: tuple[int, int]) -> Pixels:
    heat = cv2.applyColorMap(_stretched(values.astype(np.float32), image), cv2.COLORMAP_INFERNO)[..., ::-1]
    mixed: Pixels = np.ascontiguousarray((0.35 * np.asarray(image) + 0.65 * heat).astype(np.uint8))
    cv2.drawMarker(
        mixed, mark, (255, 255, 255), cv2.MARKER_CROSS, max(9, image.width // 30), max(1, image.width // 300)
    )
    return mixed


def _joined(parts: Sequence[Pixels], axis: int) -> Pixels:
    """Beside or below each other, with a gap; smaller ones are padded with white."""
    other = 1 - axis
    size = max(part.shape[other] for part in parts)
    padded = []
    for number, part in enumerate(parts):
        pad = [(0, 0), (0, 0), (0, 0)]
        pad[other] = (0, size - part.shape[other])
        pad[axis] = (_GAP_PX if number else 0, 0)
        padded.append(np.pad(part, pad, constant_values=255))
    return np.concatenate(padded, axis=axis)
