"""Which corpus and video each sample is of, from the manifest of a shard set, as numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panendofm.records.shards import ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.parquet_files import read_parquet

Ints = NDArray[np.int64]

_NAMES = ("corpus", "video", "source")


class Numbered(NamedTuple):
    """Numbers follow the sorted names, of videos together with their corpora."""

    corpora: list[str]
    corpus_of: Ints  # [N]
    video_of: Ints  # [N]


def read_frames(files: ShardFolder, keys: pa.ChunkedArray) -> pa.Table:
    """Corpus, video, source and key of the samples `keys`, which the manifest must list, in their order."""
    columns = ["shard", "key", *_NAMES]
    frames = read_parquet(files.frames, "make the shards again, or restore the file", columns, dictionaries=_NAMES)
    if not frames.column("key").equals(keys):
        frames = frames.sort_by([("shard", "ascending"), ("key", "ascending")])
    if not frames.column("key").equals(keys):
        raise UserError(
            f"data.shards={files.path}: the shards' indexes and {files.frames.name} list different samples; "
            "check the folder with 'python -m data_pipeline verify'."
        )
    nameless = frames.column("corpus").null_count
    if nameless:
        raise UserError(
            f"{files.frames}: {nameless} samples have no corpus; make the shards again, or restore the file."
        )
    return frames


def number_videos(frames: pa.Table) -> Numbered:
    """Images that are no part of a video stand for themselves: by their source, or by their key."""
    corpora, corpus_of = _sorted_codes(frames.column("corpus"))
    value_of = np.full(len(frames), -1, np.int64)  # [N], index into `values`
    values: list[str] = []
    for column in ("video", "source", "key"):
        missing = np.flatnonzero(value_of < 0)
        if not len(missing):
            break
        part = frames.column(column)
        names, codes = _codes(part if len(missing) == len(frames) else part.take(pa.array(missing)))
        value_of[missing] = np.where(codes < 0, -1, codes + len(values))
        values += names
    # The pairs that occur, few next to the samples, by name.
    pairs, pair_of = np.unique(corpus_of * max(len(values), 1) + value_of, return_inverse=True)
    names = [f"{corpora[pair // len(values)]}/{values[pair % len(values)]}" for pair in pairs.tolist()]
    number_of_pair = np.unique(np.array(names, object), return_inverse=True)[1]
    return Numbered(corpora, corpus_of, number_of_pair.ravel()[pair_of.ravel()].astype(np.int64))


def _codes(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Distinct values, and each row's number among them; -1 where it has none."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    whole = encoded.unify_dictionaries().combine_chunks()
    return whole.dictionary.to_pylist(), whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _sorted_codes(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    names, codes = _codes(column)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(np.array(names, object), kind="stable")] = np.arange(len(names))
    return sorted(names), rank[codes]
