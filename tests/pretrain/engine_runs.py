"""Small shards and real runs of `python -m pretrain` for the engine's tests."""

from __future__ import annotations

import io
import json
import os
import runpy
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import fork_server
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import simplejpeg
import torch
from torch.distributed.checkpoint.state_dict_loader import load

from panendofm.backbone.weights.checkpoint_folder import SafeReader
from panendofm.runtime.ports import free_port

TINY: dict[str, Any] = {
    "run.device": "cpu",
    "run.timeout_seconds": 30,
    "data.workers": 0,
    "batch.images": 16,
    "batch.microgroup_images": 4,
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
    """Shards of noise images in two corpora, in the form that data_pipeline gives them."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    samples = [(v, f) for f in range(frames) for v in range(videos)]
    rows, names = [], [f"shard-{number:06d}.tar" for number in range(shards)]
    for number, name in enumerate(names):
        index = []
        with tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as archive:
            for video, frame in sorted(samples[number::shards]):
                key = f"video{video:03d}_{frame:03d}"
                row = {"key": key, "corpus": f"corpus{video % 2}", "video": f"video{video:03d}", "source": "s"}
                picture = rng.integers(0, 256, (side, side, 3), np.uint8)
                places = [key]
                for extension, data in (("jpg", simplejpeg.encode_jpeg(picture)), ("json", json.dumps(row).encode())):
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    places += [archive.offset + 512, len(data)]
                    archive.addfile(member, io.BytesIO(data))
                index.append(places)
                rows.append({**row, "shard": name})
        index_file = folder / name.replace(".tar", ".index.json")
        index_file.write_text(json.dumps({"format": 1, "shard": name, "samples": index}))
    pq.write_table(pa.Table.from_pylist(rows), folder / "manifest.parquet")
    (folder / "manifest.json").write_text(json.dumps({"shards": names, "leakage": {"guarded_sets": []}}))
    return folder


def words_of(run: Path, shards: Path, **changes: Any) -> list[str]:
    """`key=value` words of a tiny run; in `changes` a double underscore stands for the dot."""
    values = {**TINY, "run.dir": run, "data.shards": shards}
    values.update({name.replace("__", "."): value for name, value in changes.items()})
    return [f"{name}={'null' if value is None else value}" for name, value in values.items()]


def write_classes(folder: Path) -> Path:
    """Two classes of images, bright noise and dark noise."""
    rng = np.random.default_rng(0)
    for name, top in (("bright", 255), ("dark", 60)):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            picture = rng.integers(0, top, (40, 40, 3), np.uint8)
            (folder / name / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(picture))
    return folder


def monitored(run: Path, shards: Path, classes: Path, **changes: object) -> list[str]:
    settings = {
        "schedule__total": "9 steps",
        "monitor__mode": "inline",
        "monitor__every_steps": 4,
        "monitor__evaluation__data__path": classes,
        "monitor__evaluation__data__clean": "false",
        "monitor__evaluation__cache": classes.parent / "cache",
        "monitor__evaluation__ks": "[1,3]",
        "monitor__evaluation__features__threads": 1,
        "monitor__evaluation__selection__metric": "top1_k3",
        "monitor__evaluation__selection__patience_evaluations": 0,
    }
    return words_of(run, shards, **{**settings, **changes})


@dataclass
class Rank:
    """A real process of a run."""

    process: BaseProcess
    output: Path

    @property
    def code(self) -> int | None:
        """The exit code, negative for the signal that ended it, None while it runs."""
        return self.process.exitcode

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


Sabotage = Callable[[], None]


def _be_a_rank(environment: dict[str, str], words: list[str], output: Path, sabotage: Sabotage | None) -> None:
    os.environ.update(environment)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    if sabotage is not None:
        sabotage()
    sys.argv[1:] = words
    runpy.run_module("pretrain", run_name="__main__")


def start_ranks(words: list[str], ranks: int, sabotage: Sabotage | None = None) -> list[Rank]:
    """The processes of a run, with the environment that torchrun gives them, but without its supervision."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    started = []
    for rank in range(ranks):
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        output = folder / f"{rank}.txt"
        started.append(Rank(fork_server.start(_be_a_rank, environment, words, output, sabotage), output))
    return started


def finish(ranks: list[Rank], timeout: float = 120) -> tuple[list[int | None], str]:
    """Exit codes by rank, None for one that had to be killed, and all that was said."""
    deadline = time.monotonic() + timeout
    codes: list[int | None] = []
    for rank in ranks:
        rank.process.join(max(0.0, deadline - time.monotonic()))
        codes.append(rank.code)
    for rank in ranks:
        if rank.code is None:
            rank.process.kill()
            rank.process.join()
    said = "\n".join(rank.output.read_text() for rank in ranks if rank.output.exists())
    shutil.rmtree(ranks[0].output.parent)
    return codes, said


def run_ranks(
    words: list[str], ranks: int, expect: int = 0, sabotage: Sabotage | None = None, timeout: float = 120
) -> str:
    codes, said = finish(start_ranks(words, ranks, sabotage), timeout)
    assert codes == [expect] * ranks, f"{codes}\n{said}"
    return said


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "speed"} for line in lines]


def tensors_of(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, put together: weights, optimizer state, centers."""
    reader = SafeReader(checkpoint)
    stored = reader.read_metadata().state_dict_metadata
    state: dict[str, Any] = {name: torch.empty(m.size, dtype=m.properties.dtype) for name, m in stored.items()}
    load(state, storage_reader=reader, no_dist=True)
    return state


def assert_same_run(one: Path, other: Path, step: int) -> None:
    """Bit-identical weights and optimizer state, and the same metrics."""
    ours, theirs = (tensors_of(run / "checkpoints" / f"step_{step:07d}") for run in (one, other))
    assert ours.keys() == theirs.keys()
    assert len(ours) > 100
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different, different[:5]
    assert metrics_of(one) == metrics_of(other)
    assert [line["step"] for line in metrics_of(one)] == list(range(step))
