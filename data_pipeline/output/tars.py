"""Shards: plain tar files that `tar` and any WebDataset reader open, each with an index of where its samples lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from data_pipeline.output.shuffle import Stretch, read_stretch, write_rows
from data_pipeline.screening.screen_sources import PART_COLUMNS
from panendofm.records.shard_tars import written_shard
from panendofm.records.shards import FrameRow, index_name

_BLOCK = 512
_ROWS_AT_ONCE = 1000


def shards_for(frames: int, jpeg_bytes: int, shard_bytes: float) -> int:
    """How many shards frames of so many bytes in all are cut into."""
    # A sample takes its JPEG, about 600 bytes of JSON, and two tar headers, each padded to blocks.
    total = jpeg_bytes + frames * (2 * _BLOCK + 2 * _BLOCK)
    return max(1, min(frames, round(total / shard_bytes)))


def write_shard(path: Path, number: int, stretches: Sequence[Stretch], rows_path: Path) -> str:
    """Write one shard and its index from stretches of runs; `rows_path` gets its rows of the manifest."""
    index = path.with_name(index_name(path.name))
    if path.is_file() and index.is_file() and rows_path.is_file():
        return path.name
    read = [read_stretch(stretch) for stretch in stretches]
    table, jpegs = pa.concat_tables([rows for rows, _ in read]), [jpeg for _, some in read for jpeg in some]
    order = np.argsort(np.array(table.column("key").to_pylist(), "S"), kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    _write_manifest_rows(rows_path, table, number)
    with written_shard(path) as shard:
        for row, place in zip(_rows_of(table), order.tolist(), strict=True):
            shard.add(row["key"], jpegs[place], sample_record(row))
    return path.name


def _rows_of(table: pa.Table) -> Iterator[FrameRow]:
    """Some rows at a time as Python objects."""
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        yield from batch.to_pylist()


def _write_manifest_rows(path: Path, table: pa.Table, number: int) -> None:
    rows = table.drop_columns(list(PART_COLUMNS))
    write_rows(path, rows.append_column("shard", pa.array([number] * len(rows), pa.int32())))


def sample_record(row: FrameRow) -> dict[str, object]:
    """What stands in a sample's JSON file."""
    return {name: value for name, value in row.items() if name not in (*PART_COLUMNS, "shard")}
