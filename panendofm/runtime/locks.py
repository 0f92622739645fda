"""One writer per directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import make_directory

LOCK_NAME = ".lock"
# The kernel's words for a file system without flock: Lustre that was mounted without it, NFS without a lock daemon.
NO_FLOCK = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextmanager
def directory_lock(directory: Path | str) -> Iterator[None]:
    """Hold `directory` for this process. The kernel frees it when the process ends, however it ends.

    Another process that wants it meanwhile gets one sentence that names the holder. On a file system without flock a
    file stands for the lock; one that a killed process left behind is taken over on its own host, and elsewhere the
    sentence says which file to remove.
    """
    path = make_directory(directory) / LOCK_NAME
    with naming_path("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    by_file: Path | None = None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{directory} is in use by {_holder(path)}; wait for it to end, or choose another folder."
            ) from None
        except OSError as error:
            if error.errno not in NO_FLOCK:
                raise
            by_file = _create_lock_file(Path(directory), path.with_name(f"{LOCK_NAME}.held"))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _own_name(), 0)
        yield
    finally:
        os.close(descriptor)
        if by_file is not None:
            by_file.unlink(missing_ok=True)


def has_flock(directory: Path | str) -> bool:
    """Whether the file system of this folder has flock."""
    path = make_directory(directory) / f"{LOCK_NAME}.asked"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError as error:
        if error.errno not in NO_FLOCK:
            raise
        return False
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
    return True


def _create_lock_file(directory: Path, path: Path) -> Path:
    """The file that only one process can create."""
    for _ in range(2):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            if not _is_left_behind(path):
                raise UserError(
                    f"{directory} is in use by {_holder(path)}; wait for it to end, or choose another folder. (This "
                    f"file system has no flock: if that process is gone, remove {path}.)"
                ) from None
            path.unlink(missing_ok=True)
            continue
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_own_name())
        return path
    raise UserError(f"{directory} is in use by {_holder(path)}; wait for it to end, or choose another folder.")


def _is_left_behind(path: Path) -> bool:
    """Whether its maker was on this host and is gone; of another host nobody here can tell."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except json.JSONDecodeError:
        return False  # it is just about to write its name
    return holder["host"] == socket.gethostname() and not Path(f"/proc/{holder['pid']}").exists()


def _own_name() -> bytes:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode()


@contextmanager
def waiting_lock(path: Path | str) -> Iterator[None]:
    """Hold the file `path`, as soon as no other process does. The kernel frees it when the process ends."""
    with naming_path("lock", path), Path(path).open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError as error:
            # Who waits here does so to spare work, and writes whole files: without flock it is done twice.
            if error.errno not in NO_FLOCK:
                raise
            yield
            return
        try:
            yield
        finally:
            fcntl.flock(stream, fcntl.LOCK_UN)  # not left to close(): a process forked meanwhile has the file, too


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return "another process"  # it has the lock and is just about to write its name
    return f"process {holder['pid']} on {holder['host']}"
