"""What the manifest says of the frames that are curated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panendofm.records.shards import ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.parquet_files import read_parquet

_COLUMNS = ("shard", "key", "corpus", "organ", "video", "source", "seconds")
# Few different texts: each is held once.
_NAMES = ("corpus", "organ", "video", "source")


def frame_rows(shards: Path, keys: pa.ChunkedArray) -> pa.Table:
    """The rows of the frames `keys`, in their order."""
    files = ShardFolder(shards)
    rows = read_parquet(files.frames, "make the shards again, or restore the file", _COLUMNS, dictionaries=_NAMES)
    if not rows.column("key").equals(keys):
        rows = rows.sort_by([("shard", "ascending"), ("key", "ascending")])
    if not rows.column("key").equals(keys):
        raise UserError(
            f"{files.path}: the shards' indexes and {files.frames.name} list different frames; check the folder with "
            "'python -m data_pipeline verify'."
        )
    return rows


def videos_and_seconds(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The video of each frame as a number [N], and its time in it [N]: NaN for images that are of no video."""
    (videos, video), (sources, source), (_, corpus) = (
        codes(rows.column(name)) for name in ("video", "source", "corpus")
    )
    known = len(videos) + len(sources)
    alone = known + np.arange(len(rows))  # an image of no video and no source stands for itself
    number = np.where(video >= 0, video, np.where(source >= 0, len(videos) + source, alone))
    times = pc.if_else(pc.is_valid(rows.column("video")), rows.column("seconds"), None)
    return corpus * (known + len(rows)) + number, times.fill_null(float("nan")).to_numpy()


def codes(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """Different values of a column, and the number of each row's [N]; -1 where it has none."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    whole = encoded.unify_dictionaries().combine_chunks()
    return whole.dictionary.to_pylist(), whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
