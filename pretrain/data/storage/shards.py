"""The samples of a folder of WebDataset shards, read one by one through offsets."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panendofm.importing import imported_folder
from panendofm.records.shards import Certificate, ShardFolder
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_checksums, user_cache
from panendofm.runtime.remote import is_remote
from pretrain.data.config import CacheConfig
from pretrain.data.order.samples_by_video import SampleRuns
from pretrain.data.storage.remote_shards import describing_folder
from pretrain.data.storage.sample_index import open_index
from pretrain.data.storage.shard_cache import ShardCache

Ints = NDArray[np.int64]

# Shards that a process holds open at a time.
_OPEN_SHARDS = 256


class UnreadableSampleError(Exception):
    """A sample whose bytes are not there or are not an image."""


@dataclass
class ShardSet:
    """All samples of a folder of shards, as memory-mapped columns; rows are in the order of shards and of keys."""

    shards: list[Path]
    keys: pa.StringArray  # [N]; not a list, whose reference counts would make every worker copy it
    shard_of: NDArray[np.int32]  # [N], index into `shards`
    offsets: Ints  # [N], where the image's bytes begin in the tar
    sizes: Ints  # [N], bytes of the image
    runs: SampleRuns  # the samples sorted by corpus and video
    corpora: list[str]  # names of the corpora, sorted
    shard_bytes: Ints  # [S], size of each tar
    sha256: str  # changes with the samples and their places: a run goes on with the very same shards only
    index: Path  # the folder of the columns' files
    certificate: Certificate | None = None  # which evaluation sets these samples were checked against
    cache: ShardCache | None = None
    _open: OrderedDict[int, int] = field(default_factory=OrderedDict, repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def files(self) -> ShardFolder:
        """The folder that describes the set; its tars may lie elsewhere."""
        return ShardFolder(self.shards[0].parent)

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


def open_shards(folder: Path | str, cache: CacheConfig | None = None, indexes: Path | str | None = None) -> ShardSet:
    """The shards of a folder, as `python -m data_pipeline shard` writes them: tars, an index each, and manifests.

    Images that others prepared are imported first. The folder may be an address in a store or on a server: its tars
    then come through the cache. With a cache whose shards come from a command, the folder needs no tars. `indexes`:
    where the index of all samples is kept; None: in the user's cache folder.
    """
    kept = Path(indexes) if indexes is not None else user_cache("pretrain") / "indexes"
    url = str(folder) if is_remote(str(folder)) else None
    if url is not None and (cache is None or cache.folder is None):
        raise UserError(f"data.shards={url} lies elsewhere: set data.cache.folder to a local folder for its shards.")
    folder = describing_folder(url, kept) if url is not None else Path(folder)
    if not ShardFolder(folder).manifest.is_file():
        folder = _imported(folder, kept)
    files = ShardFolder(folder)
    summary = files.read_manifest()
    names = sorted(summary.shards)
    if not names:
        raise UserError(f"data.shards={folder}: its {files.manifest.name} lists no shard; make the shards again.")
    fetched = url is not None or (cache is not None and cache.fetch_command is not None)
    missing = [] if fetched else [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UserError(f"the shard {folder / missing[0]} is missing; restore it, or make the shards again.")
    index = open_index(folder, names, kept)
    shard_set = ShardSet([folder / name for name in names], *index, summary.leakage)
    if cache is not None and cache.folder is not None:
        shard_set.cache = ShardCache(cache, url or folder, shard_set.sha256, read_checksums(files.checksums))
    return shard_set


def _imported(folder: Path, kept: Path) -> Path:
    """Images of others as a shard set below `kept`; shards of our own that are not finished are no such images."""
    if ShardFolder(folder).has_indexes():
        raise UserError(f"data.shards={folder} holds no finished shards (manifest.json is missing); finish them first.")
    try:
        return imported_folder(folder, kept)
    except UserError as error:
        raise UserError(f"data.shards: {error}") from error
