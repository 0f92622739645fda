"""Whether a file's bytes have left main memory for the disk: Linux 6.5 and later can be asked."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

_CACHESTAT = 451  # the number of the call on every processor family
_C_LIBRARY = ctypes.CDLL(None, use_errno=True)


def unflushed_pages(path: Path) -> int | None:
    """Pages of the file that a power cut would lose; None where the kernel can't tell."""
    whole_file = (ctypes.c_uint64 * 2)(0, 0)  # offset, length: 0 is up to the end
    counts = (ctypes.c_uint64 * 5)()  # cached, dirty, being written, evicted, recently evicted
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if _C_LIBRARY.syscall(_CACHESTAT, descriptor, whole_file, counts, 0) != 0:
            number = ctypes.get_errno()
            if number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                return None
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)
    return int(counts[1] + counts[2])
