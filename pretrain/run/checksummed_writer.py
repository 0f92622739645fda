"""torch's writer of distributed checkpoints, which takes the checksum of every file while its bytes go by."""

from __future__ import annotations

import io
import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import xxhash
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemWriter

_LARGE_BYTES = 1 << 18


class ChecksummedWriter(FileSystemWriter):
    """`checksums`: of the files that this rank has written so far, by name; equal to `damage_checksum` of each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checksums: dict[str, str] = {}
        self.fs = _ChecksummingFiles(self.checksums)


class _ChecksummingFiles(FileSystem):
    def __init__(self, checksums: dict[str, str]) -> None:
        self._checksums = checksums

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        with super().create_stream(path, mode) as stream:
            if mode != "wb":
                yield stream
                return
            with ThreadPoolExecutor(1) as beside:
                counted = _Counted(stream, beside)
                yield cast(io.IOBase, counted)
            self._checksums[Path(path).name] = counted.digest.hexdigest()


class _Counted:
    """A stream that is only written forwards, as torch does; all else is the stream's own.

    While the disk takes a large piece, another thread takes its checksum.
    """

    def __init__(self, stream: Any, beside: ThreadPoolExecutor) -> None:
        self._stream, self._beside = stream, beside
        self.digest = xxhash.xxh3_128()

    def write(self, data: Any) -> int:
        if memoryview(data).nbytes < _LARGE_BYTES:
            self.digest.update(data)
            return int(self._stream.write(data))
        updated = self._beside.submit(self.digest.update, data)
        try:
            return int(self._stream.write(data))
        finally:
            updated.result()  # the bytes are the caller's again from here on

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation("a checksum is taken of what is written in order")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
