"""The weights that everything starts from: a small ViT that has learned to describe drawn patterns, less its heads.

With labels, because a network of this size learns little without them in minutes, and what matters here is only that
there is something to lose: what the pattern is, and how much of which color there is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn

from experiments.warm_start.source_domain import CLASSES, SIDE_PX, draw_image
from panendofm.backbone import Preprocessing, VisionTransformer, ViTConfig
from panendofm.backbone.release import Export
from panendofm.runtime.console import say
from panendofm.runtime.files import atomic_file
from pretrain.data.batch import normalize

STEPS, BATCH, PEAK_LR = 600, 64, 1e-3
LEVELS, COLORS_WEIGHT = 3, 2.0


def train_start(path: Path, vit: ViTConfig, crop_px: int, images_per_class: int, seed: int) -> Path:
    """Train it once, and keep it as a file that `init.weights` takes."""
    if path.exists():
        return path
    images, kinds = _draw_all(images_per_class, seed)
    torch.manual_seed(seed)
    backbone = VisionTransformer(vit)
    preprocessing = Preprocessing().at_crop(crop_px)
    _write(untrained(path), backbone, preprocessing)
    heads = nn.ModuleDict({"kind": nn.Linear(vit.width, len(CLASSES)), "colors": nn.Linear(vit.width, LEVELS**3)})
    parameters = [*backbone.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=PEAK_LR, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LR, total_steps=STEPS)
    rng = np.random.default_rng(seed)
    for step in range(STEPS):
        rows = torch.from_numpy(rng.integers(len(images), size=BATCH))
        crops = _crops(images[rows], crop_px, rng)  # [B, 3, crop, crop]
        cls = backbone(normalize(crops)).cls  # [B, D]
        of_kind = F.cross_entropy(heads["kind"](cls), kinds[rows])
        of_colors = F.cross_entropy(heads["colors"](cls), _shares_of_colors(crops))
        loss = of_kind + COLORS_WEIGHT * of_colors
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == STEPS - 1:
            say(f"start: step {step}, kind {of_kind.item():.3f}, colors {of_colors.item():.4f}")
    _write(path, backbone, preprocessing)
    return path


def untrained(path: Path) -> Path:
    """The same network before its first step."""
    return path.with_name(f"untrained_{path.name}")


def _write(path: Path, backbone: VisionTransformer, preprocessing: Preprocessing) -> None:
    with atomic_file(path) as stream:
        state = backbone.state_dict()
        stream.write(save(state, Export(backbone, preprocessing, "float32").header(state)))


def _draw_all(per_class: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images [N, 3, S, S] bytes, kinds [N]."""
    numbers = [number for number in range(len(CLASSES)) for _ in range(per_class)]
    images = [draw_image(CLASSES[number], np.random.default_rng((seed, number, i))) for i, number in enumerate(numbers)]
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2), torch.tensor(numbers)


def _shares_of_colors(crops: Tensor) -> Tensor:
    """How much of each color, by levels of red, green and blue, is in each image: [B, LEVELS³], rows sum to 1."""
    levels = (crops.long() * LEVELS).div(256, rounding_mode="floor")  # [B, 3, H, W]
    colors = (levels[:, 0] * LEVELS + levels[:, 1]) * LEVELS + levels[:, 2]  # [B, H, W]
    return F.one_hot(colors.flatten(1), LEVELS**3).float().mean(dim=1)


def _crops(images: Tensor, crop_px: int, rng: np.random.Generator) -> Tensor:
    """One window of each image at random, scaled and flipped: [B, 3, S, S] → [B, 3, crop, crop]."""
    crops = []
    for image in images:
        side = int(rng.integers(int(0.6 * SIDE_PX), SIDE_PX + 1))
        top, left = rng.integers(0, SIDE_PX - side + 1, 2)
        window = image[None, :, top : top + side, left : left + side].float()
        window = F.interpolate(window, (crop_px, crop_px), mode="bilinear", antialias=True)
        crops.append(window.flip(-1) if rng.random() < 0.5 else window)
    return torch.cat(crops).round().to(torch.uint8)
