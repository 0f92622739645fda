"""torch's writer of distributed checkpoints, with the checksum of every file that it writes."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemWriter
from torch.distributed.checkpoint.metadata import StorageMeta

from panendofm.runtime.files import damage_checksum


class ChecksummedWriter(FileSystemWriter):
    """`checksums`: of the files that this rank has written so far, by name; equal to `damage_checksum` of each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync_files=False)  # done below
        self.checksums: dict[str, str] = {}
        self.fs = _ChecksummingFiles(self.checksums)

    def storage_meta(self) -> StorageMeta:
        """Without the path of the checkpoint: it is passed on, and says where its maker works."""
        return StorageMeta(save_id=self.save_id)


class _ChecksummingFiles(FileSystem):
    """Files are on disk when they are closed; while the disk takes the bytes, their checksum is read from memory."""

    def __init__(self, checksums: dict[str, str]) -> None:
        self._checksums = checksums

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        with super().create_stream(path, mode) as stream:
            yield stream
        if mode == "wb":
            descriptor = os.open(path, os.O_RDONLY)
            try:
                with ThreadPoolExecutor(1) as beside:
                    checksum = beside.submit(damage_checksum, Path(path))
                    os.fsync(descriptor)
                    self._checksums[Path(path).name] = checksum.result()
            finally:
                os.close(descriptor)
