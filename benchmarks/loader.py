"""Images per second and core that the loader delivers, against a plain webdataset pipeline with the same augmentation.

    python -m benchmarks.loader SHARDS [--images 256] [--rounds 3]

Both read the same shards (as `python -m data_pipeline shard` writes them) in one process on one core, decode, make 2
global and 8 local crops with the same function, and collate with masks. webdataset reads the tars from front to end
through a shuffle buffer; ours reads single samples at random places in the training order. They run alternately, and
the clock is the process's CPU time: images per second of one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import cv2
import torch
import webdataset as wds

from benchmarks.figures import Figure, Size
from benchmarks.peer import CASES, our_command, write_images, write_shards
from panendofm.backbone import vit_config
from panendofm.records.metrics import read_metrics
from panendofm.records.run import RunFolder
from pretrain.data.augment import AugmentConfig, augment_jpeg
from pretrain.data.batch import collate
from pretrain.data.config import BatchConfig, DataConfig, MaskConfig
from pretrain.data.loader import Loader, RankBatches
from pretrain.data.masking import masks_of_step
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.data.order.order import DataOrder
from pretrain.data.storage.shards import open_shards

BATCH = 32
VIT = vit_config("vit_large_patch14", drop_path=0.4)


def ours(folder: Path, images: int) -> float:
    shards = open_shards(folder)
    order = DataOrder(shards.runs, 0, BATCH, BATCH)
    batches = RankBatches(shards, order, AugmentConfig(), MaskConfig(), VIT.patch_px, BATCH, 0)
    steps = range(images // BATCH)
    began = time.process_time()
    loader = Loader(
        batches, BatchSampler(order, BatchConfig(BATCH, BATCH), 0, 1, steps), DataConfig(str(folder), workers=0)
    )
    for _ in steps:
        loader.next()
    return images / (time.process_time() - began)


def plain(folder: Path, images: int) -> float:
    augment, masks = AugmentConfig(), MaskConfig()
    side = augment.global_px // VIT.patch_px
    urls = [str(path) for path in sorted(folder.glob("*.tar"))]
    began = time.process_time()
    samples = (
        wds.WebDataset(urls, shardshuffle=False, empty_check=False)
        .repeat()
        .shuffle(200)
        .to_tuple("jpg", "__key__")
        .map(lambda sample: augment_jpeg(sample[0], augment, 0, 0, sample[1]))
    )
    waiting = []
    step = 0
    for crops in samples:
        waiting.append(crops)
        if len(waiting) == BATCH:
            collate(waiting, masks_of_step(masks, 2 * BATCH, (side, side), 0, step, 0))
            waiting, step = [], step + 1
            if step == images // BATCH:
                break
    return images / (time.process_time() - began)


def measure(folder: Path, images: int, rounds: int) -> float:
    """How many times as many images a core-second as webdataset; the first round reads the files from disk."""
    ratios = [ours(folder, images) / plain(folder, images) for _ in range(rounds + 1)]
    return statistics.median(ratios[1:])


def share_of_waiting(shards: Path, folder: Path, steps: int) -> float:
    """Of a short training of `peer`'s small case with two workers: how long its steps wait for images."""
    words = our_command(CASES["small"], 8, steps, shards, folder / "run")
    words = [word for word in words if not word.startswith("data.workers=")]
    subprocess.run([*words, "data.workers=2", "log.every_steps=5"], check=True)
    rows = read_metrics(RunFolder(folder / "run").metrics)
    # The first line has the start in it, when nothing has been read ahead.
    return statistics.median(float(row["speed"]["data_wait_share"]) for row in rows[1:])


def figures(size: Size) -> list[Figure]:
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    images, rounds, steps = (64, 2, 20) if size == "small" else (256, 3, 200)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder / "images", images)
        write_shards(folder / "images", folder / "shards")
        ratio = measure(folder / "shards", images, rounds)
        waiting = share_of_waiting(folder / "shards", folder, steps)
    step = "ViT-S/14, 56 + 28 px, 8 images a step, 2 workers on the cores of the training"
    return [
        Figure("images of a core", ratio, "×", "webdataset with the same crops", 1.0, "higher"),
        Figure("share of a training's time that waits for images", waiting, "share", step, 0.02),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    speeds: dict[str, list[float]] = {"ours": [], "webdataset": []}
    for number in range(arguments.rounds + 1):
        speeds["ours"].append(ours(arguments.shards, arguments.images))
        speeds["webdataset"].append(plain(arguments.shards, arguments.images))
        note = "  (not counted: files are read for the first time)" if number == 0 else ""
        print(
            f"round {number}: ours {speeds['ours'][-1]:.1f}, webdataset {speeds['webdataset'][-1]:.1f} images/s{note}"
        )
    medians = {name: statistics.median(values[1:]) for name, values in speeds.items()}
    print(f"ratio ours / webdataset: {medians['ours'] / medians['webdataset']:.2f} (wanted: at least 1.0)")


if __name__ == "__main__":
    main()
