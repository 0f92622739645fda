"""The weights of a curation file as training asks for them, in a memory-mapped file that the ranks of a node share.

Ten million keys take a rank a second to read and to compare. One rank does it, once per curation and shard set, and
leaves what follows from them beside the index of the samples; the others wait and map it. Each start compares a
checksum: what is damaged is made anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from panendofm.records.curation import read_weights
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import atomic_file, damage_checksum
from panendofm.runtime.locks import waiting_lock
from pretrain.data.order.sample_weights import SampleWeights
from pretrain.data.storage.sample_index import UNUSED_SECONDS
from pretrain.data.storage.shards import ShardSet

_FORMAT = 1


@dataclass(frozen=True)
class _Document:
    sha256: str
    most: int
    checksum: str  # of the file
    format: int = _FORMAT


def mapped_weights(path: Path, shards: ShardSet) -> SampleWeights:
    """The weights of the curation file `path`; built where they are not there, or damaged."""
    kept = shards.index / f"weights-{_fingerprint(path)}.npy"
    found = _mapped(kept, shards)
    if found is not None:
        return found
    with waiting_lock(kept.with_suffix(".lock")):
        found = _mapped(kept, shards)  # another rank has made them meanwhile
        if found is None:
            _build(path, shards, kept)
            found = _mapped(kept, shards)
    if found is None:
        raise UserError(f"{kept} is damaged right after it was written; check the disk, or set data.index.")
    return found


def _fingerprint(path: Path) -> str:
    """Named by the file's place, size and time."""
    with naming_path("read", path):
        status = path.stat()
    text = f"format {_FORMAT} {path.resolve()} {status.st_size} {status.st_mtime_ns}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _build(path: Path, shards: ShardSet, kept: Path) -> None:
    _remove_unused(kept.parent)
    weights = SampleWeights.of(read_weights(path, shards.keys), shards.runs)
    with naming_path("keep the weights of the samples in", kept):
        with atomic_file(kept) as stream:
            np.save(stream, weights.ends, allow_pickle=False)
        write_document(_document(kept), _Document(weights.sha256, weights.most, damage_checksum(kept)))


def _mapped(kept: Path, shards: ShardSet) -> SampleWeights | None:
    if not _document(kept).is_file():
        return None
    try:
        document = read_document(_Document, _document(kept), "weights of samples")
        if damage_checksum(kept) == document.checksum:
            os.utime(_document(kept))
            ends = np.load(kept, mmap_mode="r", allow_pickle=False)
            return SampleWeights(ends, shards.runs.starts, document.most, document.sha256)
    except UserError:  # one of the two files is gone or is not what it was
        pass
    warn(f"the weights {kept} are damaged; they are made anew.")
    return None


def _remove_unused(folder: Path) -> None:
    for document in folder.glob("weights-*.json"):
        if time.time() - document.stat().st_mtime > UNUSED_SECONDS:
            for suffix in (".npy", ".json", ".lock"):
                document.with_suffix(suffix).unlink(missing_ok=True)


def _document(kept: Path) -> Path:
    return kept.with_suffix(".json")
