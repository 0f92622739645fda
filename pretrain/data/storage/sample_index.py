"""Where every sample of a shard set lies, as columns in memory-mapped files that the ranks of a node share.

Built once per shard set from the shards' own indexes and the manifest, below a folder that can be written; its name is
a fingerprint of the files that it was built from, so that a changed set gets an index of its own. Each start compares
checksums: a damaged index is named and built anew. What a process holds of it is the kernel's page cache, not its own
memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panendofm.records.documents import read_document, write_document
from panendofm.records.shards import ShardFolder, index_name, read_index
from panendofm.runtime.console import track, warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import atomic_directory, damage_checksum, make_directory, sync_directory
from panendofm.runtime.locks import waiting_lock
from pretrain.data.order.samples_by_video import SampleRuns, sort_samples
from pretrain.data.storage.sample_videos import number_videos, read_frames

_FORMAT = 1
_SAMPLES, _VIDEOS, _DOCUMENT = "samples.arrow", "videos.arrow", "columns.json"
# An index that nobody has opened for so long goes when another one is built.
UNUSED_SECONDS = 30 * 24 * 3600
# From so many shards on it is shown how the building goes.
_MANY_SHARDS = 50


@dataclass(frozen=True)
class _Document:
    sha256: str
    corpora: list[str]
    shard_bytes: list[int]
    checksums: dict[str, str]
    format: int = _FORMAT


class SampleIndex(NamedTuple):
    """The columns of all samples; rows are in the order of shards and of keys."""

    keys: pa.StringArray  # [N]
    shard_of: NDArray[np.int32]  # [N]
    offsets: NDArray[np.int64]  # [N], where the image's bytes begin in the tar
    sizes: NDArray[np.int64]  # [N], bytes of the image
    runs: SampleRuns
    corpora: list[str]  # names, sorted
    shard_bytes: NDArray[np.int64]  # [S], size of each tar
    sha256: str  # changes with the samples and their places
    path: Path  # the folder of its files


def open_index(folder: Path, shards: list[str], indexes: Path) -> SampleIndex:
    """The index of the shards of a folder, below `indexes`; built where it is not there, or damaged."""
    path = index_path(folder, shards, indexes)
    try:
        index = _mapped(path)
        if index is not None:
            return index
        make_directory(indexes)
        with waiting_lock(indexes / f".{path.name}.lock"):
            index = _mapped(path)  # another rank has built it meanwhile
            if index is None:
                _build(folder, shards, path)
                _remove_unused(indexes)
                index = _mapped(path)
    except OSError as error:  # a file system without locks or maps
        raise UserError(f"cannot keep the index of the samples in {indexes}: {error}; set data.index.") from error
    if index is None:
        raise UserError(f"the index {path} is damaged right after it was built; check the disk, or set data.index.")
    return index


def index_path(folder: Path, shards: list[str], indexes: Path) -> Path:
    """Named by all that an index is built from: names, sizes and times of the files."""
    files = ShardFolder(folder)
    lines = [f"format {_FORMAT}", str(folder.resolve())]
    for path in (files.manifest, files.frames, *(folder / index_name(name) for name in shards)):
        with naming_path("read", path):
            status = path.stat()
        lines.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return indexes / hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:32]


def _mapped(path: Path) -> SampleIndex | None:
    """The index at `path`; None where there is none, or a damaged one, which is named."""
    if not (path / _DOCUMENT).is_file():
        return None
    document = _whole_document(path)
    if document is None:
        return None
    os.utime(path / _DOCUMENT)
    samples, videos = _columns(path / _SAMPLES), _columns(path / _VIDEOS)
    return SampleIndex(
        keys=samples.column("key"),
        **{name: samples.column(name).to_numpy() for name in ("shard_of", "offsets", "sizes")},
        runs=SampleRuns(samples.column("rows").to_numpy(), *(videos.column(i).to_numpy() for i in range(2))),
        corpora=document.corpora,
        shard_bytes=np.array(document.shard_bytes, np.int64),
        sha256=document.sha256,
        path=path,
    )


def _whole_document(path: Path) -> _Document | None:
    """What is said of an index whose files have their checksums."""
    damaged = None
    try:
        document = read_document(_Document, path / _DOCUMENT, "the index of a shard set")
    except UserError:
        damaged = _DOCUMENT
    else:
        for name in (_SAMPLES, _VIDEOS):
            if not (path / name).is_file() or damage_checksum(path / name) != document.checksums.get(name):
                damaged = name
    if damaged is None:
        return document
    warn(f"the index {path / damaged} is damaged; it is built anew.")
    return None


def _columns(path: Path) -> pa.RecordBatch:
    """One batch of columns without a copy: its buffers are the mapped file."""
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)


def _build(folder: Path, shards: list[str], path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
    with naming_path("build the index of the samples", path):
        digest = hashlib.sha256()
        names = track(shards, "indexing", len(shards), "shards") if len(shards) > _MANY_SHARDS else shards
        tables = [_read_shard(folder / name, number, digest) for number, name in enumerate(names)]
        shard_bytes = [table.tar_bytes for table in tables]
        samples = pa.concat_tables([table.samples for table in tables]).combine_chunks()
        del tables
        frames = read_frames(ShardFolder(folder), samples.column("key"))
        numbered = number_videos(frames)
        del frames
        for column in (numbered.corpus_of, numbered.video_of):
            digest.update(column.tobytes())
        runs = sort_samples(numbered.corpus_of, numbered.video_of)
        with_rows = samples.append_column("rows", pa.array(runs.rows))
        write_index(path, with_rows, runs, numbered.corpora, shard_bytes, digest.hexdigest())


def write_index(
    path: Path, samples: pa.Table, runs: SampleRuns, corpora: list[str], shard_bytes: list[int], sha256: str
) -> None:
    """Write the files of an index; `samples` has the columns of `SampleIndex` and the runs' rows."""
    with atomic_directory(path) as inside:
        videos = pa.table({"sizes": runs.sizes.astype(np.int64), "corpora": runs.corpora.astype(np.int64)})
        for name, table in ((_SAMPLES, samples), (_VIDEOS, videos)):
            table = table.combine_chunks()
            batch = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)
            with pa.OSFile(str(inside / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_batch(batch)
        checksums = {name: damage_checksum(inside / name) for name in (_SAMPLES, _VIDEOS)}
        write_document(inside / _DOCUMENT, _Document(sha256, corpora, shard_bytes, checksums))
        sync_directory(inside)


class _Shard(NamedTuple):
    samples: pa.Table
    tar_bytes: int


def _read_shard(shard: Path, number: int, digest: Any) -> _Shard:
    """The samples of one shard, sorted by key; adds them to the digest of the whole set."""
    index = read_index(shard)
    samples = sorted(index.samples)
    digest.update(json.dumps([shard.name, samples]).encode())
    assert index.tar_bytes is not None
    columns = {
        "key": pa.array([s[0] for s in samples], pa.string()),
        "shard_of": pa.array(np.full(len(samples), number, np.int32)),
        "offsets": pa.array([s[1] for s in samples], pa.int64()),
        "sizes": pa.array([s[2] for s in samples], pa.int64()),
    }
    return _Shard(pa.table(columns), index.tar_bytes)


def _remove_unused(indexes: Path) -> None:
    for document in indexes.glob(f"*/{_DOCUMENT}"):
        if time.time() - document.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(document.parent, ignore_errors=True)
