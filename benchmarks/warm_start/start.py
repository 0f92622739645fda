"""The weights that everything starts from: a small ViT that has learned to describe drawn patterns, less its heads.

With labels, because a network of this size learns little without them in minutes, and what matters here is only that
there is something to lose: what the pattern is, and which two colours it has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn

from backbone import Preprocessing, VisionTransformer, ViTConfig
from backbone.release_formats import Export
from benchmarks.warm_start.source_domain import CLASSES, SIDE_PX, draw_labelled
from pretrain.batch import normalise
from runtime.console import say
from runtime.files import atomic_file

STEPS, BATCH, PEAK_LR = 600, 64, 1e-3


def train_start(path: Path, vit: ViTConfig, crop_px: int, pictures_per_class: int, seed: int) -> Path:
    """Train it once, and keep it as a file that `init.weights` takes."""
    if path.exists():
        return path
    pictures, kinds, colours = _draw_all(pictures_per_class, seed)
    torch.manual_seed(seed)
    backbone = VisionTransformer(vit)
    preprocessing = Preprocessing(resize_px=round(crop_px * 256 / 224), crop_px=crop_px)
    _write(untrained(path), backbone, preprocessing)
    heads = nn.ModuleDict({"kind": nn.Linear(vit.width, len(CLASSES)), "colours": nn.Linear(vit.width, 6)})
    parameters = [*backbone.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=PEAK_LR, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LR, total_steps=STEPS)
    rng = np.random.default_rng(seed)
    for step in range(STEPS):
        rows = torch.from_numpy(rng.integers(len(pictures), size=BATCH))
        cls = backbone(normalise(_crops(pictures[rows], crop_px, rng))).cls  # [B, D]
        of_kind = F.cross_entropy(heads["kind"](cls), kinds[rows])
        of_colours = F.mse_loss(heads["colours"](cls), colours[rows])
        loss = of_kind + 5 * of_colours
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == STEPS - 1:
            say(f"start: step {step}, kind {float(of_kind):.3f}, colours {float(of_colours):.4f}")
    _write(path, backbone, preprocessing)
    return path


def untrained(path: Path) -> Path:
    """The same network before its first step."""
    return path.with_name(f"untrained_{path.name}")


def _write(path: Path, backbone: VisionTransformer, preprocessing: Preprocessing) -> None:
    with atomic_file(path) as stream:
        stream.write(save(backbone.state_dict(), Export(backbone, preprocessing, "float32").header()))


def _draw_all(per_class: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures [N, 3, S, S] bytes, kinds [N], both colours [N, 6]."""
    drawn = [
        (*draw_labelled(kind, np.random.default_rng((seed, number, i))), number)
        for number, kind in enumerate(CLASSES)
        for i in range(per_class)
    ]
    pictures = torch.from_numpy(np.stack([picture for picture, _, _ in drawn])).permute(0, 3, 1, 2)
    colours = torch.from_numpy(np.stack([colour for _, colour, _ in drawn]))
    return pictures, torch.tensor([number for _, _, number in drawn]), colours


def _crops(pictures: Tensor, crop_px: int, rng: np.random.Generator) -> Tensor:
    """One window of each picture at random, scaled and flipped: [B, 3, S, S] → [B, 3, crop, crop]."""
    crops = []
    for picture in pictures:
        side = int(rng.integers(int(0.6 * SIDE_PX), SIDE_PX + 1))
        top, left = rng.integers(0, SIDE_PX - side + 1, 2)
        window = picture[None, :, top : top + side, left : left + side].float()
        window = F.interpolate(window, (crop_px, crop_px), mode="bilinear", antialias=True)
        crops.append(window.flip(-1) if rng.random() < 0.5 else window)
    return torch.cat(crops).round().to(torch.uint8)
