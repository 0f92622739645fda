"""A whole training against lightly-train's `dinov2`: CPU time of a step and peak memory, loader included.

    python -m benchmarks.peer PEER_PYTHON [--only small|vit_s] [--images 8] [--steps 4 24]

PEER_PYTHON is the interpreter of an environment of its own with lightly-train 0.18 in it (AGPL: it is run as a program,
and nothing of it is imported or copied here). Both sides train a ViT-S/14 on the same JPEG files with the same numbers
and sizes of crops, one head of the same size for cls tokens and patches, Sinkhorn-Knopp, drop path 0.1, fp32, without
workers, on one thread. Each is run for two lengths; a step is the difference of their CPU times (user and system) over
the difference of steps, so that start and end cancel out. Memory is the larger run's peak of resident memory.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg

from benchmarks.figures import Figure, NotMeasured, Size
from panendofm.records.shards import shard_name, write_index

DROP_PATH = 0.1


@dataclass(frozen=True)
class Case:
    global_px: int
    local_px: int
    prototypes: int


CASES = {"small": Case(56, 28, 4096), "vit_s": Case(224, 98, 65536)}

# Runs in the peer's environment. A torchvision that was built for CUDA lacks its operators on a CPU; nothing here uses
# them, so their signatures are enough.
PEER = """
import json, sys, torch
torch.set_num_threads(1)
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import lightly_train
lightly_train.pretrain(**json.loads(sys.argv[1]))
"""


@dataclass(frozen=True)
class Used:
    seconds: float  # of CPU time
    memory_gb: float


def write_images(folder: Path, count: int) -> None:
    """Images of 512 × 430 pixels with structure at several scales."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(count):
        shading = cv2.resize(random.integers(0, 255, (14, 16, 3), np.uint8), (512, 430), interpolation=cv2.INTER_CUBIC)
        texture = cv2.GaussianBlur(random.normal(0, 18, (430, 512, 3)), (0, 0), 1.0)
        image = np.clip(shading + texture, 0, 255).astype(np.uint8)
        (folder / f"{number:05d}.jpg").write_bytes(simplejpeg.encode_jpeg(image, quality=90))


def write_shards(images: Path, folder: Path) -> None:
    """The same files as shards, every image a video of its own."""
    folder.mkdir()
    tar, samples, rows = folder / shard_name(0), [], []
    with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(images.iterdir()):
            row = {"key": path.stem, "corpus": "peer", "video": path.stem, "source": "s"}
            places = []
            for extension, data in (("jpg", path.read_bytes()), ("json", json.dumps(row).encode())):
                member = tarfile.TarInfo(f"{path.stem}.{extension}")
                member.size = len(data)
                places += [archive.offset + tarfile.BLOCKSIZE, len(data)]
                archive.addfile(member, io.BytesIO(data))
            samples.append((path.stem, places[0], places[1], places[2], places[3]))
            rows.append({**row, "shard": tar.name})
    write_index(tar, samples, tar.stat().st_size)
    pq.write_table(pa.Table.from_pylist(rows), folder / "manifest.parquet")
    (folder / "manifest.json").write_text(json.dumps({"shards": [tar.name], "leakage": {"guarded_sets": []}}))


def our_command(case: Case, images: int, steps: int, shards: Path, run: Path) -> list[str]:
    values = {
        "run.dir": run, "run.device": "cpu", "data.shards": shards, "data.workers": 0,
        "batch.images": images, "batch.microgroup_images": images,
        "augment.global_px": case.global_px, "augment.local_px": case.local_px,
        "model.name": "vit_small_patch14", "model.drop_path": DROP_PATH,
        "objective.dino_head.prototypes": case.prototypes, "objective.dino_head.bottleneck": 256,
        "objective.separate_ibot_head": "false", "schedule.total": f"{steps} steps", "schedule.warmup": "1 steps",
        "schedule.teacher_temperature_warmup": "1 steps", "schedule.freeze_last_layer": "0 steps",
        "checkpoint.every_steps": 1_000_000, "health.collapse_every_steps": 0, "monitor.mode": "none",
    }  # fmt: skip
    return [sys.executable, "-m", "pretrain", *(f"{key}={value}" for key, value in values.items())]


def peer_command(python: str, case: Case, images: int, folder: Path, run: Path) -> list[str]:
    """One epoch over a folder that has as many images as the run is to see."""
    settings = {
        "out": str(run), "data": str(folder), "model": "dinov2/vits14-notpretrained", "method": "dinov2",
        "model_args": {"drop_path_rate": DROP_PATH}, "epochs": 1, "batch_size": images, "num_workers": 0, "devices": 1,
        "accelerator": "cpu", "precision": "32-true", "float32_matmul_precision": "highest",
        "method_args": {
            "output_dim": case.prototypes, "center_method": "sinkhorn_knopp", "warmup_steps": 1,
            "teacher_temp_warmup_steps": 1, "student_freeze_last_layer_steps": 0,
        },
        "transform_args": {
            "image_size": [case.global_px] * 2, "local_view": {"num_views": 8, "view_size": [case.local_px] * 2},
        },
    }  # fmt: skip
    return [python, "-c", PEER, json.dumps(settings)]


def used_by(command: list[str], log: Path) -> Used:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} has failed:\n{log.read_text()[-3000:]}")
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9)


@dataclass(frozen=True)
class Compared:
    """Of both sides: CPU seconds of a step, and the longer run's memory in GB."""

    seconds: dict[str, float]
    memory: dict[str, float]

    @property
    def times_as_fast(self) -> float:
        return self.seconds["peer"] / self.seconds["ours"]

    @property
    def share_of_memory(self) -> float:
        return self.memory["ours"] / self.memory["peer"]


def compare(python: str, name: str, images: int, lengths: tuple[int, int]) -> Compared:
    case = CASES[name]
    used: dict[str, list[Used]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory() as scratch:
        for steps in lengths:
            folder = Path(scratch) / str(steps)
            write_images(folder / "images", images * steps)
            write_shards(folder / "images", folder / "shards")
            commands = {
                "ours": our_command(case, images, steps, folder / "shards", folder / "ours"),
                "peer": peer_command(python, case, images, folder / "images", folder / "peer"),
            }
            for side, command in commands.items():
                used[side].append(used_by(command, folder / f"{side}.txt"))
    steps = lengths[1] - lengths[0]
    seconds = {side: (long.seconds - short.seconds) / steps for side, (short, long) in used.items()}
    return Compared(seconds, {side: runs[1].memory_gb for side, runs in used.items()})


def measure(python: str, name: str, images: int, lengths: tuple[int, int]) -> None:
    case, compared = CASES[name], compare(python, name, images, lengths)
    print(
        f"{name}: ViT-S/14, {case.global_px} + {case.local_px} px, {images} images, 2 + 8 crops, {case.prototypes:,} "
        f"prototypes, one thread, runs of {lengths[0]} and {lengths[1]} steps"
    )
    for side in compared.seconds:
        print(f"  {side}  {compared.seconds[side]:7.3f} s of CPU time a step, peak {compared.memory[side]:.2f} GB")
    print(f"  {compared.times_as_fast:.2f}× as fast as the peer, {compared.share_of_memory:.2f}× its memory")


# Steps of the shorter and the longer run: with less between them, what start and end cost at random is the result.
LENGTHS: dict[str, tuple[int, int]] = {"small": (4, 24), "vit_s": (2, 10)}


def figures(size: Size) -> list[Figure]:
    python = os.environ.get("PEER_PYTHON", "")
    if not python:
        raise NotMeasured("set PEER_PYTHON to the interpreter of an environment with lightly-train 0.18 (AGPL) in it")
    found = []
    for name in CASES if size == "full" else ("small",):
        compared = compare(python, name, 8, LENGTHS[name])
        found += [
            Figure(f"{name}: times as fast", compared.times_as_fast, "×", "lightly-train 0.18", 1.0, "higher"),
            Figure(f"{name}: memory", compared.share_of_memory, "×", "lightly-train 0.18", 1.0),
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="interpreter of an environment with lightly-train 0.18")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--steps", type=int, nargs=2, metavar=("SHORT", "LONG"), help="by default 4 24 and 2 10")
    arguments = parser.parse_args()
    for name in CASES:
        if arguments.only in (None, name):
            measure(arguments.python, name, arguments.images, tuple(arguments.steps or LENGTHS[name]))


if __name__ == "__main__":
    main()
