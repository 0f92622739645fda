"""Writing the tar of a shard: members without time, owner or any other trace, and the index of where they lie."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from panendofm.records.shards import write_index
from panendofm.runtime.files import atomic_file


class ShardWriter:
    """Samples are written in the order in which they are added, which should be that of their keys."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.places: list[tuple[str, int, int, int, int]] = []

    def add(self, key: str, jpeg: bytes | memoryview, record: Mapping[str, object]) -> None:
        text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
        self.places.append((key, *self._add(f"{key}.jpg", jpeg), *self._add(f"{key}.json", text)))

    def _add(self, name: str, content: bytes | memoryview) -> tuple[int, int]:
        """Where the content of the new member begins, and how long it is."""
        member = tarfile.TarInfo(name)
        member.size = len(content)
        member.mode = 0o644
        offset = self._tar.offset + tarfile.BLOCKSIZE
        self._tar.addfile(member, io.BytesIO(content))
        return offset, len(content)


@contextmanager
def written_shard(path: Path) -> Iterator[ShardWriter]:
    """The tar at `path`, then its index: a shard counts as written when its index is there."""
    with atomic_file(path) as stream, tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        writer = ShardWriter(tar)
        yield writer
    write_index(path, writer.places, path.stat().st_size)
