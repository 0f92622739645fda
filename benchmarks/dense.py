"""Dense heads beside a plain PyTorch loop over the same heads, as ratios measured in one run.

    python benchmarks/dense.py [--images 60] [--networks 3] [--epochs 60]

Both sides answer the same question: the best of one block or all blocks at four strengths, by validation IoU, for
every network. The plain loop does what a first script does: one pass over the images per network, and per head and
strength an `nn.Conv2d` trained by AdamW at the better of two rates that were tried, features kept in memory. (After 30
epochs it is worse by 0.002 to 0.008 than after 60.) Ours decodes each image once for all networks, stores float16,
and solves all strengths of a head together by L-BFGS.

Features are bound by the networks' own forward pass, which both sides have to pay; the fits are what can be saved.
Printed: processor seconds (a machine that is shared does not change them) for features and for fits, their ratios, the
ratio of the sums, and the validation IoU of both, where ours must not be lower.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from panendofm.backbone.networks import Network, find_networks
from panendofm.imaging.images import open_image
from panendofm.linear_probe.dense.config import DenseConfig, FitConfig
from panendofm.linear_probe.dense.data.images import DenseImage, Truth, read_truth
from panendofm.linear_probe.dense.data.splits import Fold, make_plan
from panendofm.linear_probe.dense.geometry import shares_on_grid
from panendofm.linear_probe.dense.heads.segmentation import ENLARGED, Sides, iou_by_threshold, train_segmentation
from panendofm.linear_probe.dense.maps import LAST, MapLayout, Maps, feature_maps, on_one_grid

WORDS = ("efficientnet-lite0", "untrained:efficientnet-lite0", "pixels")


def write_images(folder: Path, count: int) -> None:
    """Soft blobs on textured ground: enough for both ways to have something to learn."""
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        ground = cv2.GaussianBlur(rng.normal(120, 40, (480, 600, 3)).astype(np.float32), (0, 0), 5)
        mask = np.zeros((480, 600), np.uint8)
        center = (int(rng.uniform(120, 480)), int(rng.uniform(100, 380)))
        cv2.ellipse(mask, center, (int(rng.uniform(40, 110)), int(rng.uniform(40, 90))), 0, 0, 360, 255, -1)
        shade = cv2.GaussianBlur(mask, (0, 0), 6)[..., None] / 255.0 * np.array([10.0, 30.0, 60.0])
        picture = np.clip(ground * 1.5 - 60 + shade, 0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / "images" / f"{number}.jpg"), picture)
        cv2.imwrite(str(folder / "masks" / f"{number}.png"), mask)


def plain_features(network: Network, layout: MapLayout, pictures: list[DenseImage]) -> torch.Tensor:
    """[N, C, h, w]: the images one by one through the network (in batches of 16 a CPU takes longer)."""
    module = network.load().eval()
    last = min(LAST, network.outputs.maps)
    found = []
    with torch.no_grad():
        for picture in pictures:
            image = layout.preprocessing(open_image(picture.path))[None]
            found.append(on_one_grid(module.feature_maps(image, last=last)))  # [1, P, C]
    return torch.cat(found).mT.reshape(len(pictures), -1, *layout.grid)


def plain_fits(features: torch.Tensor, maps: Maps, sides: Sides, config: FitConfig, epochs: int) -> float:
    """One head after the other; the best validation IoU."""
    target = torch.from_numpy(sides.shares)
    best = 0.0
    whole = slice(0, features.shape[1])
    for channels in [slice(b.start, b.stop) for b in maps.layout.blocks] + [whole]:
        for strength in config.strengths:
            torch.manual_seed(0)
            width = channels.stop - channels.start
            head = nn.Sequential(nn.BatchNorm2d(width), nn.Conv2d(width, target.shape[1], 1))
            optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2, weight_decay=strength)
            for _ in range(epochs):
                for some in np.array_split(np.random.permutation(sides.train), max(1, len(sides.train) // 8)):
                    logits = head(features[some][:, channels])
                    loss = F.binary_cross_entropy_with_logits(logits, target[some])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            head.eval()
            with torch.no_grad():
                probability = torch.sigmoid(head(features[sides.validation][:, channels]))
                size = sides.enlarged.shape[-2:]
                large = F.interpolate(probability, size, mode="bilinear", align_corners=False).numpy()
            best = max(best, float(iou_by_threshold(large, sides.enlarged[sides.validation]).max(0).mean()))
    return best


def sides_of(maps: Maps, fold: Fold, truths: list[Truth]) -> Sides:
    grid = maps.layout.grid
    larger = (ENLARGED * grid[0], ENLARGED * grid[1])
    shares = np.stack([shares_on_grid(t.masks, grid) for t in truths])
    enlarged = np.stack([shares_on_grid(t.masks, larger) >= 0.5 for t in truths])
    return Sides(fold.train, fold.validation, shares, enlarged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--networks", type=int, default=len(WORDS), choices=range(1, len(WORDS) + 1))
    parser.add_argument("--epochs", type=int, default=60, help="of the plain loop")
    arguments = parser.parse_args()
    config = FitConfig()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "blobs"
        write_images(folder, arguments.pictures)
        plan = make_plan(DenseConfig(data=[str(folder)]))
        fold, truths = plan.folds[0], [read_truth(p, ("polyp",)) for p in plan.images]
        networks = find_networks(WORDS[: arguments.networks])
        feature_maps(networks, plan.images[:1], Path(temporary) / "warm", 256, 16, torch.device("cpu"))
        began = time.process_time()
        maps = feature_maps(networks, plan.images, Path(temporary) / "cache", 256, 16, torch.device("cpu"))
        own_features = time.process_time() - began
        own_fits = plain_features_seconds = plain_fits_seconds = 0.0
        for network in networks:
            sides = sides_of(maps[network.name], fold, truths)
            began = time.process_time()
            ours = train_segmentation(maps[network.name], sides, ["linear", "linear-4"], config)[0].validation_iou
            own_fits += time.process_time() - began
            began = time.process_time()
            features = plain_features(network, maps[network.name].layout, plan.images)
            plain_features_seconds += time.process_time() - began
            began = time.process_time()
            plain = plain_fits(features, maps[network.name], sides, config, arguments.epochs)
            plain_fits_seconds += time.process_time() - began
            print(f"{network.name}: validation {ours:.3f} ours, {plain:.3f} plain loop")
    plain_seconds = plain_features_seconds + plain_fits_seconds
    for what, own_seconds, others in (
        ("features", own_features, plain_features_seconds),
        ("fits", own_fits, plain_fits_seconds),
        ("both", own_features + own_fits, plain_seconds),
    ):
        print(f"{what}: {own_seconds:.1f} s, plain loop {others:.1f} s: {others / own_seconds:.1f} times as fast")


if __name__ == "__main__":
    main()
