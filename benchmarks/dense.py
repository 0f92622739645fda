"""Dense heads beside a plain PyTorch loop over the same heads, as ratios measured in one run.

    python benchmarks/dense.py [--pictures 60] [--networks 3] [--epochs 30]

Both sides answer the same question: the best of one block or all blocks at four strengths, by validation IoU, for
every network. The plain loop does what a first script does: one pass over the pictures per network, and per head and
strength an `nn.Conv2d` trained by Adam, features computed once per network and kept in memory. Ours decodes each
picture once for all networks, stores float16, and solves all strengths of a head together by L-BFGS.

Printed: seconds for features and for fits, the ratios, and the validation IoU of both, which must not be worse.
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

from backbone.networks import Network, find_networks
from linear_probe.dense.config import DenseConfig, FitConfig
from linear_probe.dense.geometry import shares_on_grid
from linear_probe.dense.maps import MapMaker, Maps, feature_maps
from linear_probe.dense.pictures import Picture, Truth, read_truth
from linear_probe.dense.segmentation import ENLARGED, Sides, iou_by_threshold, train_segmentation
from linear_probe.dense.splits import Fold, make_plan
from runtime.images import open_image

WORDS = ("efficientnet-lite0", "untrained:efficientnet-lite0", "pixels")


def write_pictures(folder: Path, count: int) -> None:
    """Soft blobs on textured ground: enough for both ways to have something to learn."""
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        ground = cv2.GaussianBlur(rng.normal(120, 40, (480, 600, 3)).astype(np.float32), (0, 0), 5)
        mask = np.zeros((480, 600), np.uint8)
        centre = (int(rng.uniform(120, 480)), int(rng.uniform(100, 380)))
        cv2.ellipse(mask, centre, (int(rng.uniform(40, 110)), int(rng.uniform(40, 90))), 0, 0, 360, 255, -1)
        shade = cv2.GaussianBlur(mask, (0, 0), 6)[..., None] / 255.0 * np.array([10.0, 30.0, 60.0])
        picture = np.clip(ground * 1.5 - 60 + shade, 0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / "images" / f"{number}.jpg"), picture)
        cv2.imwrite(str(folder / "masks" / f"{number}.png"), mask)


def plain_features(network: Network, pictures: list[Picture], side_px: int) -> torch.Tensor:
    """[N, C, h, w]: the pictures one by one through the network."""
    maker = MapMaker(network, side_px, torch.device("cpu"))
    rows, columns = maker.layout.grid
    return torch.cat(
        [maker(maker.layout.preprocessing(open_image(p.path))[None]).mT.reshape(1, -1, rows, columns) for p in pictures]
    )


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
            optimiser = torch.optim.AdamW(head.parameters(), lr=3e-3, weight_decay=strength)
            for _ in range(epochs):
                for some in np.array_split(np.random.permutation(sides.train), max(1, len(sides.train) // 8)):
                    logits = head(features[some][:, channels])
                    loss = F.binary_cross_entropy_with_logits(logits, target[some])
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
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
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    config = FitConfig()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "blobs"
        write_pictures(folder, arguments.pictures)
        plan = make_plan(DenseConfig(data=[str(folder)]))
        fold, truths = plan.folds[0], [read_truth(p, ("polyp",)) for p in plan.pictures]
        networks = find_networks(WORDS[: arguments.networks])
        began = time.perf_counter()
        maps = feature_maps(networks, plan.pictures, Path(temporary) / "cache", 256, 16, torch.device("cpu"))
        own_features = time.perf_counter() - began
        own_fits = plain_features_seconds = plain_fits_seconds = 0.0
        for network in networks:
            sides = sides_of(maps[network.name], fold, truths)
            began = time.perf_counter()
            ours = train_segmentation(maps[network.name], sides, ["linear", "linear-4"], config)[0].validation_iou
            own_fits += time.perf_counter() - began
            began = time.perf_counter()
            features = plain_features(network, plan.pictures, 256)
            plain_features_seconds += time.perf_counter() - began
            began = time.perf_counter()
            plain = plain_fits(features, maps[network.name], sides, config, arguments.epochs)
            plain_fits_seconds += time.perf_counter() - began
            print(f"{network.name}: validation {ours:.3f} ours, {plain:.3f} plain loop")
    print(f"features: {own_features:.1f} s, plain {plain_features_seconds:.1f} s")
    print(f"fits: {own_fits:.1f} s, plain {plain_fits_seconds:.1f} s: {plain_fits_seconds / own_fits:.1f} times")
    total = (plain_features_seconds + plain_fits_seconds) / (own_features + own_fits)
    print(f"both: {total:.1f} times as fast")


if __name__ == "__main__":
    main()
