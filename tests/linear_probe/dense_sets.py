"""Small sets of images with masks: white blobs on dark ground, so that the color of a field tells its share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone import Preprocessing
from panendofm.backbone.networks import Network, Outputs

ODD_SIZES = ((337, 101), (241, 533), (97, 161), (480, 640), (333, 217), (129, 129))


def blob(width: int, height: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A image with one white ellipse on noisy dark ground, and its mask."""
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), np.uint8)
    center = (int(rng.uniform(0.3, 0.7) * width), int(rng.uniform(0.3, 0.7) * height))
    axes = (int(rng.uniform(0.16, 0.28) * width), int(rng.uniform(0.16, 0.28) * height))
    cv2.ellipse(mask, center, axes, 0, 0, 360, 255, -1)
    ground = rng.integers(0, 40, (height, width, 3), np.uint8)
    return np.where(mask[..., None] > 0, 235, ground).astype(np.uint8), mask


def write_set(folder: Path, count: int, first_seed: int = 0, sizes: tuple[tuple[int, int], ...] = ODD_SIZES) -> Path:
    """FOLDER/images and FOLDER/masks; every third image shows nothing and has an empty mask."""
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        width, height = sizes[number % len(sizes)]
        image, mask = blob(width, height, first_seed + number)
        if number % 3 == 2:
            rng = np.random.default_rng(1000 + first_seed + number)
            image, mask = rng.integers(0, 60, (height, width, 3), np.uint8), np.zeros_like(mask)
            image = cv2.GaussianBlur(image, (0, 0), rng.uniform(0.5, 3))
        cv2.imwrite(str(folder / "images" / f"p{number:02d}.png"), image)
        cv2.imwrite(str(folder / "masks" / f"p{number:02d}.png"), mask)
    return folder


class Oracle(nn.Module):
    """Mean brightness of patches of 8 px: what a perfect network would say of these images."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3))

    def feature_maps(self, images: Tensor, last: int = 1) -> list[Tensor]:
        return [F.avg_pool2d(images, 8).mean(1, keepdim=True)]


@dataclass(frozen=True)
class _Same:
    def __call__(self) -> nn.Module:
        return Oracle().eval()


def oracle() -> Network:
    return Network(
        "oracle", "oracle", "baseline", "oracle", "0" * 64, replace(Preprocessing(), mean=(0, 0, 0), std=(1, 1, 1)),
        _Same(), Outputs(maps=1),
    )  # fmt: skip
