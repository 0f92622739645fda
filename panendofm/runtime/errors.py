"""Errors that a user can act on.

Raise `UserError` with one sentence that names the file or key and says what to do. At the command line it becomes that
sentence and exit code 2. Every other exception is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from panendofm.runtime.names import printable

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """Something the user can put right: its message is one sentence that says what is wrong and what to do."""


# What the operating system says about a path, in the user's terms.
_PATH_ADVICE = {
    errno.EACCES: "permission denied; choose a folder that you may use, or change its permissions",
    errno.EPERM: "the operation is not permitted; choose a folder that you may use, or change its permissions",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "your disk quota is used up; free some space and run the same command again",
    errno.ENOENT: "it does not exist; check the path",
    errno.ENOTDIR: "a part of the path is a file, not a folder; check the path",
    errno.EISDIR: "it is a folder, not a file; check the path",
    errno.ELOOP: "it is a link that leads to itself; replace the link",
    errno.EEXIST: "something is there already; remove it or choose another name",
    errno.ENOTEMPTY: "something is there already; remove it or choose another name",
    errno.EFBIG: "the file is larger than the system allows; raise the limit, or choose another folder",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


@contextmanager
def naming_path(action: str, path: Path | str) -> Iterator[None]:
    """Turn an operating-system error about `path` into a `UserError`: «cannot {action} {path}: …»."""
    try:
        yield
    except OSError as error:
        advice = _PATH_ADVICE.get(error.errno or 0)
        if advice is None:
            raise
        raise UserError(f"cannot {action} {path}: {advice}.") from error


def exit_code_of(main: Callable[[], int | None]) -> int:
    """Run a command's main function and return its exit code; a `UserError` is printed as one sentence."""
    try:
        return main() or 0
    except UserError as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of `command | head` has gone: point stdout elsewhere, so that the last flush at exit is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
