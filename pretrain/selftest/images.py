"""Shards of drawn images, for a machine that has no corpus yet: as large as real frames, and worth nothing else."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.records.shards import Certificate, Manifest, ShardFolder, shard_name, write_index
from panendofm.runtime.files import make_directory

_WIDTH, _HEIGHT, _QUALITY = 640, 512, 90


def image(seed: int) -> bytes:
    """A JPEG of 640 × 512 pixels with shading and texture, some 70 kB: what a frame costs to decode."""
    random = np.random.default_rng(seed)
    shading = cv2.resize(random.integers(0, 255, (16, 20, 3), np.uint8), (_WIDTH, _HEIGHT))
    texture = cv2.GaussianBlur(random.normal(0, 18, (_HEIGHT, _WIDTH, 3)), (0, 0), 1.0)
    frame = np.clip(shading + texture, 0, 255).astype(np.uint8)
    encoded = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])[1]
    return encoded.tobytes()


def write_images(folder: Path, images: int, drawn: int = 16) -> Path:
    """One shard of `images` samples, each from a video of its own; `drawn` different images among them."""
    make_directory(folder)
    path = folder / shard_name(0)
    jpegs = [image(seed) for seed in range(min(drawn, images))]
    rows, samples = [], []
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(images):
            row = {"key": f"drawn_{number:06d}", "corpus": "drawn", "video": f"video{number:06d}", "source": "drawn"}
            places: list[int] = []
            contents = {"jpg": jpegs[number % len(jpegs)], "json": json.dumps(row).encode()}
            for extension, data in contents.items():
                member = tarfile.TarInfo(f"{row['key']}.{extension}")
                member.size = len(data)
                places += [archive.offset + tarfile.BLOCKSIZE, len(data)]
                archive.addfile(member, io.BytesIO(data))
            samples.append((row["key"], places[0], places[1], places[2], places[3]))
            rows.append({**row, "shard": path.name})
    write_index(path, samples, path.stat().st_size)
    shards = ShardFolder(folder)
    pq.write_table(pa.Table.from_pylist(rows), shards.frames)
    shards.write_manifest(Manifest(shards=[path.name], frames=images, leakage=Certificate()))
    return folder
