"""Shards in a store or on a server: what describes them is brought here, the tars themselves come through the cache."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from panendofm.records.shards import ShardFolder, index_name
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import failed_checksums, make_directory, read_checksums, write_text
from panendofm.runtime.locks import waiting_lock
from panendofm.runtime.remote import fetch


def describing_folder(url: str, below: Path) -> Path:
    """A folder with the manifest, indexes and checksums of the shards at `url`, but no tar; brought once per set.

    The list of checksums, which is fetched at every start, tells sets apart and says whether the others are right.
    """
    make_directory(below)
    mark = hashlib.sha256(url.encode()).hexdigest()[:12]
    with waiting_lock(below / f".remote-{mark}.lock"):
        fresh = below / f".remote-{mark}"
        checksums = ShardFolder(fresh).checksums
        fetch(url, [checksums.name], fresh)
        listed = read_checksums(checksums)
        folder = below / f"remote-{hashlib.sha256(checksums.read_bytes()).hexdigest()[:24]}"
        if ShardFolder(folder).checksums.is_file():
            return folder
        names = [name for name in listed if not name.endswith(".tar")]
        tars = [name for name in listed if name.endswith(".tar")]
        if not tars or any(index_name(name) not in listed for name in tars):
            raise UserError(f"data.shards={url}: its {checksums.name} does not list shards with their indexes.")
        shutil.rmtree(folder, ignore_errors=True)
        fetch(url, names, folder)
        own = "".join(f"{listed[name]}  {name}\n" for name in names)
        write_text(folder / "own", own)
        damaged = failed_checksums(folder, "own")
        if damaged:
            raise UserError(f"data.shards={url}: {damaged[0]} does not have its checksum; upload the set again.")
        (folder / "own").unlink()
        write_text(ShardFolder(folder).checksums, checksums.read_text(encoding="utf-8"))  # last: now it is whole
        return folder
