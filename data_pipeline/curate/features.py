"""Features of all frames of a shard set, a file per shard: computed on Ray, each once.

A file is named by its shard's index and the network, so that an interrupted run goes on and a changed set begins anew.
A shard is computed by one task, in batches that its own order decides: workers and their number change nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from PIL import Image

from data_pipeline.cluster import ray_session, run_tasks, tasks_on_gpus
from data_pipeline.config import RayConfig
from data_pipeline.curate.mapped import Features
from panendofm.backbone import extract_features
from panendofm.backbone.networks import find_network
from panendofm.imaging.images import open_image
from panendofm.records.shards import ShardFolder, index_name, read_index
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, make_directory, read_text

_BATCH = 32
_GPU_READERS = 4  # threads that read images for one GPU


@dataclass(frozen=True)
class Frames:
    """Keys [N] and unit features [N, D], in the order of shards and of keys."""

    keys: pa.ChunkedArray  # a chunk per shard
    features: Features
    shards: list[Path]

    def image(self, row: int) -> Image.Image:
        ends = np.cumsum([len(keys) for keys in self.keys.chunks])
        number = int(np.searchsorted(ends, row, side="right"))
        return ShardImages(self.shards[number])[row - int(ends[number])]  # counted from the shard's end


def frame_features(shards: Path, network: str, work: Path, config: RayConfig, gpus_per_task: float = 0.0) -> Frames:
    """Features of every frame, from `work` as far as they are there."""
    files = ShardFolder(shards)
    files.refuse_unfinished()
    names = sorted(files.read_manifest().shards)
    make_directory(work)
    found = find_network(network, work)
    paths = [work / f"{name}-{_print(shards / name, found.weights_sha256)}.npy" for name in names]
    todo = [
        (shards / name, network, path, gpus_per_task > 0)
        for name, path in zip(names, paths, strict=True)
        if not path.is_file()
    ]
    if len(todo) < len(paths):
        say(f"features of {len(paths) - len(todo)} of {len(paths)} shards are there.")
    if todo:
        with ray_session(config) as at_once:
            if gpus_per_task > 0:
                at_once = min(at_once, tasks_on_gpus(gpus_per_task))
            tasks = run_tasks(_compute, todo, at_once, config.retries, gpus_per_task)
            for _ in track(tasks, "features", len(todo), "shards"):
                pass
    keys = [pa.array(ShardImages(shards / name).keys, pa.string()) for name in names]
    parts = [_mapped(path) for path in paths]
    if [len(some) for some in keys] != [len(some) for some in parts]:
        raise UserError(f"{work} holds features of other frames; remove it and run curate again.")
    return Frames(pa.chunked_array(keys, pa.string()), Features(parts), [shards / name for name in names])


def _print(shard: Path, weights_sha256: str) -> str:
    """Named by where every sample lies and by the network."""
    text = read_text(shard.with_name(index_name(shard.name))) + weights_sha256
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mapped(path: Path) -> NDArray[np.float32]:
    try:
        features: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"cannot read the features {path} ({error}); remove the file and run curate again.") from error
    return features


class ShardImages:
    """The images of a shard, in the order of their keys."""

    def __init__(self, shard: Path) -> None:
        self._shard = shard
        self._samples = sorted(read_index(shard).samples)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def keys(self) -> list[str]:
        return [sample[0] for sample in self._samples]

    def __getitem__(self, index: int) -> Image.Image:
        key, offset, size, *_ = self._samples[index]
        with self._opened() as descriptor:
            return open_image(io.BytesIO(os.pread(descriptor, size, offset)), f"{key} in {self._shard.name}")

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            descriptor = os.open(self._shard, os.O_RDONLY)
        except OSError as error:
            raise UserError(f"cannot read the shard {self._shard}: {error.strerror}; restore it.") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _compute(shard: Path, network: str, path: Path, on_gpu: bool) -> None:
    """One task: the features of one shard."""
    torch.set_num_threads(1)  # a sum over threads would depend on their number
    if on_gpu and not torch.cuda.is_available():
        raise UserError("gpus_per_task: Ray gave a GPU that torch does not see; install torch for CUDA, or set 0.")
    found = find_network(network, path.parent)
    module, images = found.load(), ShardImages(shard)
    if on_gpu:
        module = module.cuda()
    readers = _GPU_READERS if on_gpu else 1
    features = extract_features(module, images, found.preprocessing, _BATCH, threads=readers, label=shard.name).numpy()
    with atomic_file(path) as stream:
        np.save(stream, unit_rows(features), allow_pickle=False)


def unit_rows(features: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    rows: NDArray[np.float32] = (features / np.maximum(length, 1e-12)).astype(np.float32)
    return rows
