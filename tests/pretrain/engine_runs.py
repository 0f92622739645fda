"""Small shards and real runs of `python -m pretrain` for the engine's tests."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

REPOSITORY = Path(__file__).resolve().parents[2]

TINY: dict[str, Any] = {
    "run.device": "cpu",
    "run.timeout_seconds": 60,
    "data.workers": 0,
    "batch.images": 16,
    "batch.group_images": 4,
    "augment.global_px": 28,
    "augment.local_px": 14,
    "augment.local_crops": 2,
    "model.name": "vit_test",
    "model.drop_path": 0.3,
    "model.image_px": 28,
    "model.depth": 2,
    # At 1e-5 the blocks' first gradients are no larger than AdamW's epsilon, and rounding would decide their signs.
    "model.layerscale_init": 0.1,
    "objective.dino_head.prototypes": 32,
    "objective.dino_head.hidden": 32,
    "objective.dino_head.bottleneck": 16,
    "objective.ibot_head.prototypes": 24,
    "objective.ibot_head.hidden": 32,
    "objective.ibot_head.bottleneck": 16,
    "schedule.total": "12 steps",
    "schedule.warmup": "2 steps",
    "schedule.base_lr": 0.008,
    "schedule.freeze_last_layer": "1 steps",
    "schedule.teacher_temperature_warmup": "4 steps",
    "checkpoint.every_steps": 3,
    "health.collapse_every_steps": 4,
    "log.every_steps": 1,
    "log.sample_keys": True,
}


def write_shards(folder: Path, videos: int = 30, frames: int = 4, shards: int = 3, side: int = 40) -> Path:
    """Plain WebDataset shards of noise pictures in two corpora."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    samples = [(v, f) for v in range(videos) for f in range(frames)]
    for number in range(shards):
        with tarfile.open(folder / f"shard-{number:06d}.tar", "w") as archive:
            for video, frame in samples[number::shards]:
                key = f"video{video:03d}_{frame:03d}"
                picture = rng.integers(0, 256, (side, side, 3), np.uint8)
                info = {"corpus": f"corpus{video % 2}", "video": f"video{video:03d}"}
                for name, data in (
                    (f"{key}.jpg", simplejpeg.encode_jpeg(picture)),
                    (f"{key}.json", json.dumps(info).encode()),
                ):
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    return folder


def words_of(run: Path, shards: Path, **changes: Any) -> list[str]:
    """`key=value` words of a tiny run; in `changes` a double underscore stands for the dot."""
    values = {**TINY, "run.dir": run, "data.shards": shards}
    values.update({name.replace("__", "."): value for name, value in changes.items()})
    return [f"{name}={'null' if value is None else value}" for name, value in values.items()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_ranks(words: list[str], ranks: int, program: list[str] | None = None) -> list[subprocess.Popen[str]]:
    """The processes of a run, as torchrun would start them, but without its supervision."""
    port = free_port()
    started = []
    for rank in range(ranks):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(REPOSITORY),
        }
        command = [sys.executable, *(program or ["-m", "pretrain"]), *words]
        started.append(
            subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )
    return started


def finish(processes: list[subprocess.Popen[str]], timeout: float = 120) -> tuple[list[int], str]:
    """Exit codes by rank, and all that was said."""
    try:
        said = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], "\n".join(said)


def run_ranks(words: list[str], ranks: int, expect: int = 0, program: list[str] | None = None) -> str:
    codes, said = finish(start_ranks(words, ranks, program))
    assert codes == [expect] * ranks, said
    return said


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "speed"} for line in lines]
