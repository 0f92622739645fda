"""Files in S3-compatible stores and on web servers.

Credentials and the store's address come from the environment alone (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL for stores other than Amazon's): they stand in no config, no log and no command line.

Reading happens in a process of its own, `python -m panendofm.runtime.remote cat URL NAME`: the client keeps threads,
which do not live on in the loader's forked workers. It tries again when the server answers with an error, and goes on
where a transfer broke off.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.files import atomic_file, make_directory

# Breaks of one transfer after which it is given up, and the pause that grows with them.
_BREAKS = 6
_PAUSE_SECONDS = 0.2
_CHUNK_BYTES = 4 << 20
_RETRIES: Any = {
    "max_retries": 8,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=10), "base": 2},
}
_DIGEST = "sha256"  # the name under which an object's checksum stands in its metadata


def is_remote(word: str) -> bool:
    """Whether a word names a place in a store or on a server, not a folder."""
    return re.match(r"(s3|https?)://", word) is not None


def open_store(url: str) -> Any:
    """The client of a place; its files are named relative to it."""
    from obstore.exceptions import BaseError
    from obstore.store import HTTPStore, S3Store

    parts = urlsplit(url)
    if parts.username or parts.password:
        raise UserError("the address of a store must not hold a password; give credentials in the environment.")
    if not parts.netloc:
        raise UserError(f"{url} names no bucket or server; write s3://BUCKET/FOLDER or https://SERVER/FOLDER.")
    plain = url.startswith("http://") or os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    options: Any = {"allow_http": plain, "timeout": timedelta(minutes=10), "connect_timeout": timedelta(seconds=20)}
    try:
        if parts.scheme == "s3":
            return S3Store.from_url(url, client_options=options, retry_config=_RETRIES)
        return HTTPStore.from_url(url, client_options=options, retry_config=_RETRIES)
    except (BaseError, ValueError) as error:
        raise UserError(f"cannot use {url}: {_first_line(error)}; check it and the environment.") from error


def read_to(store: Any, name: str, target: IO[bytes], url: str) -> None:
    """Write a remote file to `target`; where its transfer breaks off, it goes on from there."""
    import obstore
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    written = 0
    for attempt in range(_BREAKS + 1):
        try:
            answer = obstore.get(store, name, options={"range": {"offset": written}} if written else {})
            for chunk in answer.stream(min_chunk_size=_CHUNK_BYTES):
                target.write(chunk)
                written += len(chunk)
            return
        except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError) as error:
            raise UserError(f"cannot read {name} of {url}: {_reason(error)}.") from error
        except BaseError as error:
            if attempt == _BREAKS:
                raise UserError(
                    f"cannot read {name} of {url}: {_first_line(error)}; check the address, the environment and the "
                    "network, and run the same command again."
                ) from error
            time.sleep(_PAUSE_SECONDS * 2**attempt)


def fetch(url: str, names: Iterable[str], folder: Path) -> None:
    """Bring some files into a folder, each whole or not at all, by a process of its own."""
    make_directory(folder)
    words = [sys.executable, "-m", "panendofm.runtime.remote", "get", url, str(folder)]
    ended = subprocess.run(words, input="\n".join(names), text=True, stderr=subprocess.PIPE, check=False)
    if ended.returncode:
        raise UserError((ended.stderr.strip().splitlines() or ["no answer"])[-1].removeprefix("error: "))


def command_for(url: str, name: str) -> list[str]:
    """The command that writes a remote file to its standard output."""
    return [sys.executable, "-m", "panendofm.runtime.remote", "cat", url, name]


def upload(store: Any, name: str, path: Path, sha256: str) -> bool:
    """Bring a file to the store, unless it is there with this checksum: false. Objects appear whole or not at all."""
    import obstore
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        if _stored_digest(store, name) == sha256:
            return False
        obstore.put(store, name, path, attributes={_DIGEST: sha256})
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise UserError(f"cannot write {name}: {_reason(error)}.") from error
    except (BaseError, FileNotFoundError) as error:
        raise UserError(
            f"cannot upload {name}: {_first_line(error)}; run the same command again, it goes on with what is missing."
        ) from error
    return True


def _stored_digest(store: Any, name: str) -> str | None:
    import obstore

    try:
        found = obstore.get(store, name, options={"head": True}).attributes.get(_DIGEST)
    except FileNotFoundError:
        return None
    return None if found is None else str(found)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it does not exist; check the address"
    return "access is denied; check the credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300]


def _main() -> int | None:
    verb, url, place = sys.argv[1:4]
    store = open_store(url)
    if verb == "cat":
        read_to(store, place, sys.stdout.buffer, url)
        sys.stdout.buffer.flush()
        return None
    for name in sys.stdin.read().split("\n"):
        with atomic_file(Path(place) / name) as target:
            read_to(store, name, target, url)
    return None


if __name__ == "__main__":
    try:
        sys.exit(exit_code_of(_main))
    except BrokenPipeError:
        warn("the reader of a remote file has gone.")
        sys.exit(1)
