"""curation.parquet: how often training sees each frame of a shard set, and why.

One row per frame, in the order of shards and of keys. Others may write such a file as well: `key` and `weight` are
enough for training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panendofm.records.folder import Inside
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file
from panendofm.runtime.parquet_files import read_batches, read_parquet

SUFFIX = ".parquet"

CURATION_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("clusters", pa.list_(pa.int32())),  # number of its cluster at each level, the finest first
        ("weight", pa.float64()),  # how often an epoch sees it, on the average; 0: never
    ]
)

_REMEDY = "make it again with 'python -m data_pipeline curate'"
# Rows that are compared at a time, and that a file's row groups have: the keys of ten million frames need never be in
# memory at once.
_ROWS, _GROUP_ROWS = 1 << 16, 1 << 17


@dataclass(frozen=True)
class CurationFolder:
    """The paths of one curation."""

    path: Path

    table = Inside(f"curation{SUFFIX}")  # what training reads
    page = Inside("report.html")
    config = Inside("config.yaml")
    # A file per shard; they may be removed when no other curation is wanted.
    features = Inside("features")


def write_curation(path: Path, keys: pa.Array, clusters: NDArray[np.int32], weights: NDArray[np.float64]) -> None:
    """Keys [N], clusters [N, levels], weights [N]."""
    levels = clusters.shape[1]
    edges = pa.array(np.arange(len(keys) + 1, dtype=np.int32) * levels)
    of_frame = pa.ListArray.from_arrays(edges, pa.array(clusters.ravel(), pa.int32()))
    table = pa.table([keys, of_frame, pa.array(weights, pa.float64())], schema=CURATION_SCHEMA)
    with atomic_file(path) as stream:
        pq.write_table(table, stream, row_group_size=_GROUP_ROWS)


def read_curation(path: Path) -> pa.Table:
    return read_parquet(path, _REMEDY, schema=CURATION_SCHEMA)


def read_weights(path: Path, keys: pa.StringArray) -> NDArray[np.float64]:
    """The weights [N] of the frames `keys`, whatever the order of the file's rows."""
    weights = _in_order(path, keys)
    if weights is None:
        weights = _by_key(path, keys)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise UserError(f"{path}: every weight must be a number of 0 or more, one of them above 0; {_REMEDY}.")
    return weights


def _in_order(path: Path, keys: pa.StringArray) -> NDArray[np.float64] | None:
    """The weights of a file whose rows stand in the order of `keys`; None where they don't."""
    weights, begin = np.empty(len(keys)), 0
    for batch in _batches(path):
        end = begin + len(batch)
        if end > len(keys) or not batch.column(0).equals(keys.slice(begin, len(batch))):
            return None
        weights[begin:end] = _numbers(batch.column(1))
        begin = end
    return weights if begin == len(keys) else None


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([CURATION_SCHEMA.field("key"), CURATION_SCHEMA.field("weight")])
    return read_batches(path, _REMEDY, schema, _ROWS)


def _by_key(path: Path, keys: pa.StringArray) -> NDArray[np.float64]:
    table = pa.Table.from_batches(list(_batches(path))).combine_chunks()
    rows = pc.index_in(keys, value_set=table.column("key").combine_chunks())
    if rows.null_count or len(table) != len(keys):
        absent = keys.filter(pc.is_null(rows))
        said = f"it has no row for {absent[0]}" if len(absent) else f"it has {len(table)} rows for {len(keys)} frames"
        raise UserError(f"{path} is not of these shards: {said}; {_REMEDY}.")
    return _numbers(table.column("weight").take(rows))


def _numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """NaN for what is missing."""
    numbers: NDArray[np.float64] = column.fill_null(float("nan")).to_numpy()
    return numbers
