"""The samples of a folder of WebDataset shards, read one by one through offsets."""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pretrain.data.shard_cache import CacheConfig, ShardCache
from records.shards import Certificate, ShardFolder, read_index
from runtime.errors import UserError, naming_path
from runtime.files import read_checksums
from runtime.parquet_files import read_parquet

Ints = NDArray[np.int64]

# Shards that a process holds open at a time.
_OPEN_SHARDS = 256


class UnreadableSampleError(Exception):
    """A sample whose bytes are not there or are not an image."""


@dataclass
class ShardSet:
    """All samples of a folder of shards, as columns; rows are in the order of shards and of offsets."""

    shards: list[Path]
    shard_of: Ints  # [N], index into `shards`
    offsets: Ints  # [N], where the image's bytes begin in the tar
    sizes: Ints  # [N], bytes of the image
    keys: pa.StringArray  # [N]; not a list, whose reference counts would make every worker copy it
    corpora: list[str]  # names of the corpora, sorted
    corpus_of: Ints  # [N], index into `corpora`
    video_of: Ints  # [N]
    shard_bytes: Ints  # [S], size of each tar
    sha256: str  # changes with the samples and their places: a run goes on with the very same shards only
    certificate: Certificate | None = None  # which evaluation sets these samples were checked against
    cache: ShardCache | None = None
    _open: OrderedDict[int, int] = field(default_factory=OrderedDict, repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, row: int) -> str:
        return str(self.keys[row])

    def read(self, row: int) -> bytes:
        """The encoded image of a sample."""
        descriptor = self._descriptor(int(self.shard_of[row]))
        size = int(self.sizes[row])
        try:
            data = os.pread(descriptor, size, int(self.offsets[row]))
        except OSError as error:
            raise UnreadableSampleError(f"the file system can't read it: {error.strerror}") from error
        if len(data) != size:
            raise UnreadableSampleError(f"{self.describe(row)} is cut off: {len(data)} of {size} bytes are there")
        return data

    def describe(self, row: int) -> str:
        return f"{self.key(row)} in {self.shards[int(self.shard_of[row])].name}"

    def _descriptor(self, shard: int) -> int:
        if shard in self._open:
            self._open.move_to_end(shard)
            return self._open[shard]
        if len(self._open) >= _OPEN_SHARDS:
            os.close(self._open.popitem(last=False)[1])
        if self.cache is not None:
            self._open[shard] = self.cache.open(self.shards[shard].name, int(self.shard_bytes[shard]))
        else:
            with naming_path("read the shard", self.shards[shard]):
                self._open[shard] = os.open(self.shards[shard], os.O_RDONLY)
        return self._open[shard]

    def close_removed(self) -> None:
        """Close shards that the cache has removed: the disk gets their room back when nobody holds them open."""
        if self.cache is None:
            return
        for shard, descriptor in list(self._open.items()):
            if os.fstat(descriptor).st_nlink == 0:
                os.close(self._open.pop(shard))


def open_shards(folder: Path | str, cache: CacheConfig | None = None) -> ShardSet:
    """The shards of a folder, as `python -m data_pipeline shard` writes them: tars, an index each, and manifests.

    With a cache whose shards come from a command, the folder needs no tars.
    """
    folder = Path(folder)
    files = ShardFolder(folder)
    if not files.manifest.is_file():
        raise UserError(f"data.shards={folder}: there is no {files.manifest.name}; name a folder of finished shards.")
    summary = files.read_manifest()
    shards = sorted(folder / name for name in summary.shards)
    if not shards:
        raise UserError(f"data.shards={folder}: its {files.manifest.name} lists no shard; make the shards again.")
    columns = ["shard", "key", "corpus", "video", "source"]
    frames = read_parquet(files.frames, "make the shards again, or restore the file", columns)
    frames = frames.sort_by([("shard", "ascending"), ("key", "ascending")]).combine_chunks()
    digest = hashlib.sha256()
    fetched = cache is not None and cache.fetch_command is not None
    indexes = [_read_index(shard, digest, fetched) for shard in shards]
    keys = pa.concat_arrays([index.keys for index in indexes])
    if not pa.chunked_array([keys]).equals(frames.column("key")):
        raise UserError(
            f"data.shards={folder}: the shards' indexes and {files.frames.name} list different samples; "
            "check the folder with 'python -m data_pipeline verify'."
        )
    offsets_and_sizes = np.concatenate([index.places for index in indexes])  # [N, 2]
    corpora, corpus_of = _numbered(frames.column("corpus"))
    # Pictures that are no part of a video stand for themselves.
    video = pc.coalesce(frames.column("video"), frames.column("source"), frames.column("key"))
    _, video_of = _numbered(pc.binary_join_element_wise(frames.column("corpus"), video, "/"))
    for column in (corpus_of, video_of):
        digest.update(column.tobytes())
    shard_set = ShardSet(
        shards,
        np.repeat(np.arange(len(shards)), [len(index.places) for index in indexes]),
        offsets_and_sizes[:, 0],
        offsets_and_sizes[:, 1],
        keys,
        corpora,
        corpus_of,
        video_of,
        np.array([index.tar_bytes for index in indexes], np.int64),
        digest.hexdigest(),
        summary.leakage,
    )
    if cache is not None and cache.folder is not None:
        shard_set.cache = ShardCache(cache, folder, shard_set.sha256, read_checksums(files.checksums))
    return shard_set


class _Index(NamedTuple):
    keys: pa.StringArray  # [n], sorted
    places: Ints  # [n, 2], offset and size of each image
    tar_bytes: int


def _read_index(shard: Path, digest: Any, fetched: bool) -> _Index:
    """The index of one shard; `fetched`: a command brings the tar, it need not be here."""
    if not fetched and not shard.is_file():
        raise UserError(f"the shard {shard} is missing; restore it, or make the shards again.")
    index = read_index(shard)
    samples = sorted(index.samples)
    digest.update(json.dumps([shard.name, samples]).encode())
    assert index.tar_bytes is not None
    places = np.array([s[1:3] for s in samples], np.int64).reshape(-1, 2)
    return _Index(pa.array([s[0] for s in samples], pa.string()), places, index.tar_bytes)


def _numbered(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Distinct values in sorted order, and each row's number among them."""
    encoded = pc.dictionary_encode(column).combine_chunks()
    names = encoded.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(np.array(names, object), kind="stable")] = np.arange(len(names))
    return sorted(names), rank[encoded.indices.to_numpy()]
