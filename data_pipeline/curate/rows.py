"""What the manifest says of the frames that are curated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from records.shards import ShardFolder
from runtime.errors import UserError
from runtime.parquet_files import read_parquet

_COLUMNS = ("shard", "key", "corpus", "organ", "video", "source", "seconds")


def frame_rows(shards: Path, keys: pa.Array) -> pa.Table:
    """The rows of the frames `keys`, in their order."""
    files = ShardFolder(shards)
    rows = read_parquet(files.frames, "make the shards again, or restore the file", _COLUMNS)
    rows = rows.sort_by([("shard", "ascending"), ("key", "ascending")])
    if not rows.column("key").combine_chunks().equals(keys):
        raise UserError(
            f"{files.path}: the shards' indexes and {files.frames.name} list different frames; check the folder with "
            "'python -m data_pipeline verify'."
        )
    return rows


def videos_and_seconds(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The video of each frame as a number [N], and its time in it [N]: NaN for pictures that are of no video."""
    name = pc.binary_join_element_wise(
        rows.column("corpus"), pc.coalesce(rows.column("video"), rows.column("source"), rows.column("key")), "/"
    )
    numbers = pc.dictionary_encode(name).combine_chunks().indices.to_numpy().astype(np.int64)
    times = pc.if_else(pc.is_valid(rows.column("video")), rows.column("seconds"), None)
    return numbers, times.fill_null(float("nan")).to_numpy()
