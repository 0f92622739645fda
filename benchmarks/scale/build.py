"""What building the index of a shard set costs, once per set: from the shards' own indexes and the manifest.

python -m benchmarks.scale build [--samples 50000 200000]
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.scale.sharding import in_own_process
from benchmarks.scale.start import FRAMES_PER_VIDEO, SAMPLES_PER_SHARD
from panendofm.records.shards import FRAME_SCHEMA, Manifest, ShardFolder, shard_name, write_index
from pretrain.data.storage.shards import open_shards


def write_set(folder: Path, samples: int) -> None:
    """Indexes and manifest of shards whose tars are empty."""
    folder.mkdir(parents=True)
    keys = sorted(hashlib.sha256(f"{number}".encode()).hexdigest()[:20] for number in range(samples))
    names = [shard_name(number) for number in range(-(-samples // SAMPLES_PER_SHARD))]
    for number, name in enumerate(names):
        (folder / name).touch()
        own = keys[number * SAMPLES_PER_SHARD : (number + 1) * SAMPLES_PER_SHARD]
        places = [(key, 64_000 * i, 60_000, 64_000 * i + 61_000, 600) for i, key in enumerate(own)]
        write_index(folder / name, places, 64_000 * len(own))
    videos = np.random.default_rng(0).integers(0, max(1, samples // FRAMES_PER_VIDEO), samples)
    hashed = np.array([hashlib.sha256(f"video {n}".encode()).hexdigest()[:20] for n in range(videos.max() + 1)])
    columns = {name: pa.nulls(samples, FRAME_SCHEMA.field(name).type) for name in FRAME_SCHEMA.names}
    columns |= {"key": pa.array(keys), "video": pa.array(hashed[videos]), "source": pa.array(hashed[videos])}
    columns["corpus"] = pa.array(np.char.add("corpus", (videos % 5).astype(str)))
    columns["shard"] = pa.array((np.arange(samples) // SAMPLES_PER_SHARD).astype(np.int32))
    files = ShardFolder(folder)
    files.write_manifest(Manifest(names))
    pq.write_table(pa.table(columns), files.frames, compression="zstd")


def main(counts: list[int]) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "shards"
            in_own_process(lambda f=folder, c=count: write_set(f, c))  # type: ignore[misc]
            _, cpu, peak = in_own_process(lambda f=folder: open_shards(f, indexes=f.with_name("i")))  # type: ignore[misc]
        print(f"index of {count:,} samples: {cpu:.1f} cpu seconds, {1e6 * cpu / count:.1f} a million, {peak:.0f} MB")
