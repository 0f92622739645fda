"""`upload`: a finished set of shards into an S3-compatible store. What is there already is not sent again."""

from __future__ import annotations

from pathlib import Path

from panendofm.records.shards import ShardFolder
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_checksums, sha256_of
from panendofm.runtime.remote import is_remote, open_store, upload


def upload_shards(folder: Path, url: str) -> int:
    """Bring a finished set to `url`; returns the number of files that were sent. The checksums go last."""
    files = ShardFolder(folder)
    files.refuse_unfinished()
    if not is_remote(url) or not url.startswith("s3://"):
        raise UserError(f"cannot upload to {url}: write s3://BUCKET/FOLDER, the credentials in the environment.")
    listed = read_checksums(files.checksums)
    missing = [name for name in listed if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder / missing[0]} is missing; restore it, and check the set with verify.")
    store, sent = open_store(url), 0
    for name, digest in track(sorted(listed.items()), "uploading", len(listed), "files"):
        sent += upload(store, name, folder / name, digest)
    sent += upload(store, files.checksums.name, files.checksums, sha256_of(files.checksums))
    say(f"{url} holds the set: {sent} files were sent, {len(listed) + 1 - sent} were there.")
    return sent
