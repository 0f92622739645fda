"""Shards: plain tar files that `tar` and any WebDataset reader open, each with an index of where its samples lie."""

from __future__ import annotations

import io
import itertools
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from data_pipeline.work import PART_COLUMNS
from records.shards import index_name, write_index
from runtime.files import atomic_file

_BLOCK = 512


def cut_into_shards(keys: Sequence[str], sizes: Sequence[int], shard_bytes: float) -> list[list[int]]:
    """Rows of each shard. Keys are keyed hashes, so their order is a fair shuffle; it is cut into equal runs."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    # A sample takes its JPEG, about 600 bytes of JSON, and two tar headers, each padded to blocks.
    total = sum(sizes) + len(sizes) * (2 * _BLOCK + 2 * _BLOCK)
    count = max(1, min(len(order), round(total / shard_bytes)))
    edges = [i * len(order) // count for i in range(count + 1)]
    return [order[begin:end] for begin, end in itertools.pairwise(edges)]


def write_shard(path: Path, parts: Sequence[Path], rows: pa.Table) -> str:
    """Write one shard and its index; `rows` has its frames in order, with the number of their part."""
    index = path.with_name(index_name(path.name))
    if path.is_file() and index.is_file():
        return path.name
    samples = []
    with atomic_file(path) as stream, tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for row in rows.to_pylist():
            with (parts[row["part"]] / "frames.bin").open("rb") as source:
                source.seek(row["offset"])
                jpeg = source.read(row["size"])
            record = json.dumps(sample_record(row), sort_keys=True, separators=(",", ":")).encode()
            image, text = _add(tar, f"{row['key']}.jpg", jpeg), _add(tar, f"{row['key']}.json", record)
            samples.append((row["key"], *image, *text))
    # The index comes last: a shard counts as written when its index is there.
    write_index(path, samples, path.stat().st_size)
    return path.name


def sample_record(row: dict[str, Any]) -> dict[str, Any]:
    """What stands in a sample's JSON file."""
    return {name: value for name, value in row.items() if name not in (*PART_COLUMNS, "part", "shard")}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> tuple[int, int]:
    """Add a file without time, owner or any other trace; returns where its content begins and how long it is."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    offset = tar.offset + _BLOCK
    tar.addfile(member, io.BytesIO(content))
    return offset, len(content)
