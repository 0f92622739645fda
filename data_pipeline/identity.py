"""Keyed hashes in place of names. Without the key, nobody can tell from a shard which file or patient a frame is of."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from panendofm.records.shards import PrivateFolder
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import TEMPORARY_MARK, make_directory

_KEY_BYTES = 32


def load_or_create_key(private_dir: Path) -> bytes:
    """The secret of this output. It is made once, readable by its owner only. The caller holds the folder's lock."""
    path = PrivateFolder(make_directory(private_dir)).key
    if not path.exists():
        temporary = path.with_name(f".{path.name}{TEMPORARY_MARK}{os.getpid()}")
        with naming_path("write the key", path):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(os.urandom(_KEY_BYTES).hex().encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
    return load_key(private_dir)


def load_key(private_dir: Path) -> bytes:
    path = PrivateFolder(private_dir).key
    with naming_path("read the key", path):
        text = path.read_text(encoding="ascii").strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise UserError(f"the key {path} is damaged; restore it, or remove it to begin a new output with new names.")
    return key


def hashed(key: bytes, *parts: object) -> str:
    """A name of 20 hexadecimal digits for any parts; the same for the same key and parts."""
    text = "\0".join(str(part) for part in parts)
    return hmac.new(key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:20]
