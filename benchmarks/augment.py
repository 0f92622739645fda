"""Augmentation speed: our CPU path against the reference's recipe in Pillow and torchvision transforms, on one core.

    python -m benchmarks.augment FOLDER_OF_JPEGS [--images 48] [--rounds 5]

Both sides start from the same encoded images in memory and end with normalized float tensors of 2 global crops of
224 px and 8 local crops of 98 px. They run alternately, image set by image set, in one process with one
thread; the figure is the ratio of the medians of the process's CPU time. The last lines are what `augment.where=gpu`
leaves to a worker: crops that are cut and no more.
"""

from __future__ import annotations

import argparse
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image

from benchmarks.figures import Figure, Size
from benchmarks.peer import write_images
from panendofm.backbone import Preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.runtime.config import CONFIGS, load_config
from pretrain import PretrainConfig
from pretrain.data.augment import AugmentConfig, augment_jpeg, prepare_jpeg
from pretrain.data.batch import normalize

ENDOSCOPY = CONFIGS / "pretrain" / "panendofm_vitl14.yaml"


def reference_recipe(config: AugmentConfig) -> Callable[[bytes], list[torch.Tensor]]:
    """The published recipe from torchvision's transforms on Pillow images."""
    ensure_torchvision()
    from torchvision.transforms import v2  # after the shim

    def crop(side: int, low: float, high: float) -> Any:
        resized = v2.RandomResizedCrop(side, (low, high), interpolation=v2.InterpolationMode.BICUBIC)
        return v2.Compose([resized, v2.RandomHorizontalFlip(0.5)])

    jitter = v2.Compose([v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8), v2.RandomGrayscale(0.2)])
    to_tensor = v2.Compose(
        [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(Preprocessing.mean, Preprocessing.std)]
    )

    def blur(probability: float) -> Any:
        return v2.RandomApply([v2.GaussianBlur(9, (0.1, 2.0))], probability)

    global_1 = v2.Compose([jitter, blur(0.0), to_tensor])
    global_2 = v2.Compose([jitter, blur(0.9), v2.RandomSolarize(128, 0.2), to_tensor])
    local = v2.Compose([jitter, blur(0.5), to_tensor])
    global_crop = crop(config.global_px, config.global_scale_min, config.global_scale_max)
    local_crop = crop(config.local_px, config.local_scale_min, config.local_scale_max)

    def run(data: bytes) -> list[torch.Tensor]:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        crops = [global_1(global_crop(image)), global_2(global_crop(image))]
        return crops + [local(local_crop(image)) for _ in range(config.local_crops)]

    return run


def our_path(config: AugmentConfig) -> Callable[[bytes], list[torch.Tensor]]:
    calls = iter(range(1 << 60))

    def run(data: bytes) -> list[torch.Tensor]:
        global_crops, local_crops = augment_jpeg(data, config, seed=0, epoch=0, key=next(calls))
        return [
            normalize(torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2)) for crops in (global_crops, local_crops)
        ]

    return run


def worker_share(config: AugmentConfig) -> Callable[[bytes], object]:
    calls = iter(range(1 << 60))
    return lambda data: prepare_jpeg(data, config, seed=0, epoch=0, key=next(calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    paths = sorted(arguments.folder.rglob("*.jpg"))
    if not paths:
        parser.error(f"no .jpg files below {arguments.folder}")
    data = [p.read_bytes() for p in paths[:: max(1, len(paths) // arguments.images)][: arguments.images]]
    medians = measure(data, arguments.rounds)
    reference = medians["Pillow + torchvision"]
    print(f"{len(data)} images × {arguments.rounds} rounds, one core, 2 × 224 px + 8 × 98 px")
    for name, median in medians.items():
        print(f"{name:24} {1000 * median:6.2f} ms/image  {1 / median:6.1f} images/s  {reference / median:5.2f}×")


def figures(size: Size) -> list[Figure]:
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder) / "images", 8 if size == "small" else 48)
        data = [path.read_bytes() for path in sorted((Path(folder) / "images").iterdir())]
    medians = measure(data, 2 if size == "small" else 5)
    peer = "Pillow and torchvision's transforms"
    reference = medians["Pillow + torchvision"]
    return [
        Figure("default recipe: times as fast", reference / medians["ours"], "×", peer, 1.0, "higher"),
        Figure("default recipe", 1e3 * medians["ours"], "CPU ms/image", "2 × 224 px + 8 × 98 px of 512 × 430"),
        Figure("a worker's share with augment.where=gpu", 1e3 * medians["worker's share"], "CPU ms/image", "crops cut"),
    ]


def measure(data: list[bytes], rounds: int) -> dict[str, float]:
    """CPU seconds of an image, by way."""
    ways: dict[str, Callable[[bytes], object]] = {
        "Pillow + torchvision": reference_recipe(AugmentConfig()),
        "ours": our_path(AugmentConfig()),
        "ours, endoscopy config": our_path(load_config(PretrainConfig, ENDOSCOPY).augment),
        "worker's share": worker_share(AugmentConfig(where="gpu")),
        "…, endoscopy config": worker_share(load_config(PretrainConfig, ENDOSCOPY, ["augment.where=gpu"]).augment),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for round_number in range(rounds + 1):
        for name, way in ways.items():
            for image in data:
                start = time.process_time()
                way(image)
                if round_number:  # the first round warms up
                    seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


if __name__ == "__main__":
    main()
