"""One writer per directory."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.errors import UserError, naming_path
from runtime.files import make_directory

LOCK_NAME = ".lock"


@contextmanager
def directory_lock(directory: Path | str) -> Iterator[None]:
    """Hold `directory` for this process. The kernel frees it when the process ends, however it ends.

    Another process that wants it meanwhile gets one sentence that names the holder.
    """
    path = make_directory(directory) / LOCK_NAME
    with naming_path("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{directory} is in use by {_holder(path)}; wait for it to end, or choose another folder."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        return "another process"  # it has the lock and is just about to write its name
    return f"process {holder['pid']} on {holder['host']}"
