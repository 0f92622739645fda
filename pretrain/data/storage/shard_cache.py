"""Whole shards on a local disk: each read once from front to end, shared by a node's processes, within a budget.

For storage that is slow at many small reads: a parallel file system, a mounted object store, or whatever a command can
write to its standard output. A copy appears under its name only when its checksum is right. Processes agree by locks
that the kernel frees when their holder ends: whoever waits for a copy takes over from one that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from panendofm.records.shards import ShardFolder
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import TEMPORARY_MARK, make_directory
from panendofm.runtime.remote import command_for
from pretrain.data.config import SHARD_PLACEHOLDER, CacheConfig

_CHUNK_BYTES = 8 << 20
_TRIES = 2  # a transfer may go wrong once
_FOLDER = "folder"
_ROOM_WAIT_SECONDS = 0.2


class ShardCache:
    """The copies of a set of shards. `identity` tells sets apart that share a folder and have shards of equal names."""

    def __init__(self, config: CacheConfig, source: Path | str, identity: str, checksums: dict[str, str]) -> None:
        assert config.folder is not None
        self.folder = make_directory(config.folder)
        self.budget_bytes = int(config.budget_gb * 1e9)
        self._source = source
        self._identity = identity[:12]
        self._checksums = checksums
        self._command = None if config.fetch_command is None else shlex.split(config.fetch_command)
        if self._command is None and isinstance(source, str):  # an address
            self._command = command_for(source, SHARD_PLACEHOLDER)

    def open(self, name: str, size: int) -> int:
        """A descriptor of a shard's copy, which is made first where there is none. `size`: its bytes, as indexed."""
        while True:
            self.fetch(name, size)
            with contextlib.suppress(FileNotFoundError):  # another process made room in this very moment
                return os.open(self._path(name), os.O_RDONLY)

    def fetch(self, name: str, size: int, wait: bool = True) -> None:
        """Make sure that a shard's copy is there. Without `wait`, leave it to another process that is copying it."""
        if self._touch(name):
            return
        with self._lock(self._path(name).name, wait) as ours:
            if not ours or self._touch(name):
                return
            for attempt in range(_TRIES):
                if self._copy(name, size):
                    return
                warn(f"the copy of shard {name} has a wrong checksum (try {attempt + 1} of {_TRIES}).")
        checksums = ShardFolder(Path()).checksums.name
        raise UserError(
            f"the shard {name} does not have the checksum that {checksums} in data.shards gives; restore the shard, "
            "or read it where it lies with data.cache.folder=null, which passes over single damaged samples."
        )

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._identity}-{name}"

    def _touch(self, name: str) -> bool:
        """Whether a shard's copy exists; marked as used just now, it is the last to be removed."""
        try:
            os.utime(self._path(name))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _lock(self, name: str, wait: bool = True) -> Iterator[bool]:
        """Hold the lock of a copy, or of the folder; false when another process has it and we don't wait."""
        path = self.folder / f".{name}.lock"
        with naming_path("lock", path):
            stream = path.open("w")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(stream, fcntl.LOCK_UN)  # not left to close(): a process forked meanwhile has the file, too

    def _copy(self, name: str, size: int) -> bool:
        """Copy a shard; false when its checksum is wrong."""
        final = self._path(name)
        partial = final.with_name(f".{final.name}{TEMPORARY_MARK}copy")
        while not self._make_room(partial, size):
            time.sleep(_ROOM_WAIT_SECONDS)
        digest = hashlib.sha256()
        try:
            with naming_path("write", partial):
                target = partial.open("r+b")
            with target, self._source_of(name) as source:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    with naming_path("write", partial):
                        target.write(chunk)
                with naming_path("write", partial):
                    target.truncate()
                    target.flush()
                    os.fsync(target.fileno())
            if digest.hexdigest() != self._checksums.get(name):
                partial.unlink()
                return False
            with self._lock(_FOLDER):  # whoever adds up sizes meets it once, under one name or the other
                partial.rename(final)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return True

    @contextmanager
    def _source_of(self, name: str) -> Iterator[IO[bytes]]:
        if self._command is None:
            path = Path(self._source) / name
            with naming_path("read the shard", path):
                stream = path.open("rb")
            with stream:
                yield stream
            return
        words = [word.replace(SHARD_PLACEHOLDER, name) for word in self._command]
        with naming_path("run data.cache.fetch_command", words[0]):
            process = subprocess.Popen(words, stdout=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            try:
                yield process.stdout
            except BaseException:
                process.kill()
                raise
        if process.returncode and isinstance(self._source, str):
            raise UserError(
                f"the shard {name} could not be brought from data.shards={self._source}; its reader said why."
            )
        if process.returncode:
            raise UserError(
                f"data.cache.fetch_command could not fetch the shard {name}: '{shlex.join(words)}' ended with exit "
                f"code {process.returncode}; check the command and what it has said."
            )

    def _make_room(self, partial: Path, size: int) -> bool:
        """Make an empty file with room for `size` bytes, removing other copies, those unused for longest first.

        False when only copies under way stand in its place: they end, and then they can be removed.
        """
        with self._lock(_FOLDER):  # one process makes room at a time, and its file counts from now on
            partial.unlink(missing_ok=True)  # of a process that was killed
            files = sorted(self._copies(), key=lambda pair: pair[1].st_mtime_ns)
            held = sum(status.st_size for _, status in files)
            for path, status in files:
                if held + size > self.budget_bytes and not path.name.startswith("."):
                    path.unlink(missing_ok=True)
                    held -= status.st_size
            if held + size > self.budget_bytes and not held:
                raise UserError(
                    f"data.cache.budget_gb={self.budget_bytes / 1e9:g} is less than one shard "
                    f"({size / 1e9:.3g} GB); raise it."
                )
            if held + size > self.budget_bytes:
                return False
            with naming_path("write", partial), partial.open("xb") as stream:
                os.posix_fallocate(stream.fileno(), 0, max(size, 1))
        return True

    def _copies(self) -> Iterator[tuple[Path, os.stat_result]]:
        """All copies, also those under way. What killed processes left half-copied is removed."""
        for path in self.folder.iterdir():
            name, mark, _ = path.name.removeprefix(".").partition(TEMPORARY_MARK)
            if path.suffix == ".lock":
                continue
            if mark and not self._is_being_copied(name):
                path.unlink(missing_ok=True)
                continue
            with contextlib.suppress(FileNotFoundError):  # renamed in this moment
                yield path, path.stat()

    def _is_being_copied(self, name: str) -> bool:
        with self._lock(name, wait=False) as ours:
            return not ours


class FetchAhead:
    """Brings shards that are needed soon, in a thread. The copying leaves the interpreter to others nearly always."""

    def __init__(self, cache: ShardCache) -> None:
        self._cache = cache
        self._wanted: queue.SimpleQueue[Sequence[tuple[str, int]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="fetch shards", daemon=True).start()

    def want(self, shards: Sequence[tuple[str, int]]) -> None:
        """Names and sizes, in the order in which they are needed."""
        self._wanted.put(shards)

    def close(self) -> None:
        """No more of them. A copy under way may end with the process: a part of one is never taken for the whole."""
        self._wanted.put(None)

    def _work(self) -> None:
        while (shards := self._wanted.get()) is not None:
            for name, size in shards:
                if not self._wanted.empty():
                    break  # training has gone on, or has ended
                try:
                    self._cache.fetch(name, size, wait=False)
                except UserError as error:
                    # Whoever needs this shard meets the same error and ends the run with it.
                    warn(f"could not fetch the shard {name} ahead of its time: {error}")
