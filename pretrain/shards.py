"""The samples of a folder of WebDataset shards, read one by one through offsets."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError, naming_path

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
    keys: list[str]  # [N]
    corpora: list[str]  # names of the corpora, sorted
    corpus_of: Ints  # [N], index into `corpora`
    video_of: Ints  # [N]
    certificate: dict[str, Any] | None = None  # which evaluation sets these samples were checked against
    _open: OrderedDict[int, int] = field(default_factory=OrderedDict, repr=False)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, row: int) -> bytes:
        """The encoded image of a sample."""
        descriptor = self._descriptor(int(self.shard_of[row]))
        size = int(self.sizes[row])
        data = os.pread(descriptor, size, int(self.offsets[row]))
        if len(data) != size:
            raise UnreadableSampleError(f"{self.describe(row)} is cut off: {len(data)} of {size} bytes are there")
        return data

    def is_there(self, row: int) -> bool:
        """Whether the sample's shard is there at all: a missing shard is no matter of single samples."""
        return self.shards[int(self.shard_of[row])].is_file()

    def describe(self, row: int) -> str:
        return f"{self.keys[row]} in {self.shards[int(self.shard_of[row])].name}"

    def fingerprint(self) -> str:
        """Changes with the samples and their places: a run can only go on with the very same shards."""
        digest = hashlib.sha256()
        for shard in self.shards:
            digest.update(shard.name.encode() + b"\0")
        for column in (self.shard_of, self.offsets, self.sizes, self.corpus_of, self.video_of):
            digest.update(np.ascontiguousarray(column, np.int64).tobytes())
        digest.update("\0".join(self.keys).encode())
        return digest.hexdigest()

    def _descriptor(self, shard: int) -> int:
        if shard in self._open:
            self._open.move_to_end(shard)
            return self._open[shard]
        if len(self._open) >= _OPEN_SHARDS:
            os.close(self._open.popitem(last=False)[1])
        with naming_path("read the shard", self.shards[shard]):
            self._open[shard] = os.open(self.shards[shard], os.O_RDONLY)
        return self._open[shard]


def open_shards(folder: Path | str) -> ShardSet:
    """The shards of a folder."""
    folder = Path(folder)
    tars = sorted(folder.glob("*.tar"))
    if not tars:
        raise UserError(f"data.shards={folder}: there are no .tar files; name a folder of shards.")
    columns: list[tuple[int, int, int, str, str, str]] = []
    for number, path in enumerate(tars):
        with tarfile.open(path) as archive:
            members = {m.name: m for m in archive}
            for name, member in members.items():
                key, _, extension = name.rpartition(".")
                if extension == "jpg":
                    info = json.load(archive.extractfile(members[f"{key}.json"]))  # type: ignore[arg-type]
                    columns.append((number, member.offset_data, member.size, key, info["corpus"], info["video"]))
    shard_of, offsets, sizes, keys, corpora, videos = zip(*columns, strict=True)
    names, corpus_of = np.unique(corpora, return_inverse=True)
    return ShardSet(
        tars,
        np.array(shard_of),
        np.array(offsets),
        np.array(sizes),
        list(keys),
        [str(n) for n in names],
        corpus_of,
        np.unique(videos, return_inverse=True)[1],
    )
