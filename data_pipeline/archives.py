"""A corpus that came as a zip or tar: its images and videos are unpacked once.

They lie beside the key, outside of what is published: their names may be names of patients.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from data_pipeline.sources import is_media
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVE_SUFFIXES) and path.is_file()


def unpacked(archive: Path, below: Path) -> Path:
    """The folder with the archive's media; made when it is not there, whole or not at all."""
    status = archive.stat()
    facts = f"{archive.name} {status.st_size} {status.st_mtime_ns}"
    target = below / f"{archive.name}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    if not target.exists():
        with _saying_what_is_wrong(archive), _open(archive) as opened:
            _refuse_too_large(archive, opened, below)
            say(f"unpacking {archive}: {len(opened.members)} files, {opened.size_bytes / 1e6:.1f} MB")
            with atomic_directory(target) as folder:
                opened.unpack_into(folder)
    return _without_wrapper(target)


@dataclass(frozen=True)
class _Opened:
    """An archive and the members that are media."""

    archive: zipfile.ZipFile | tarfile.TarFile
    members: list[zipfile.ZipInfo] | list[tarfile.TarInfo]
    size_bytes: int

    def unpack_into(self, folder: Path) -> None:
        if isinstance(self.archive, zipfile.ZipFile):
            self.archive.extractall(folder, self.members)  # type: ignore[arg-type]
        else:
            # "data" refuses paths and links that lead out of the folder, devices and odd permissions.
            self.archive.extractall(folder, self.members, filter="data")  # type: ignore[arg-type]


@contextmanager
def _open(archive: Path) -> Iterator[_Opened]:
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            infos = [info for info in opened.infolist() if not info.is_dir() and _is_wanted(info.filename)]
            locked = next((info.filename for info in infos if info.flag_bits & 1), None)
            if locked is not None:
                raise UserError(f"{archive} is locked by a password; unpack it yourself, and name the folder.")
            yield _Opened(opened, infos, sum(info.file_size for info in infos))
    else:
        with tarfile.open(archive) as tar:
            members = [member for member in tar.getmembers() if member.isfile() and _is_wanted(member.name)]
            yield _Opened(tar, members, sum(member.size for member in members))


def _is_wanted(name: str) -> bool:
    """Media, and no leftovers of a Mac's archiver."""
    return is_media(name) and not any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def _refuse_too_large(archive: Path, opened: _Opened, below: Path) -> None:
    below.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(below).free
    if opened.size_bytes > free:
        raise UserError(
            f"{archive} holds {opened.size_bytes / 1e9:.1f} GB of media, but {below} has {free / 1e9:.1f} GB free; "
            "make room, or name another identity.private_dir."
        )


@contextmanager
def _saying_what_is_wrong(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise UserError(f"{archive} can't be unpacked ({error}); get it again.") from error


def _without_wrapper(folder: Path) -> Path:
    """Archives often hold one folder that holds everything; the corpus begins inside."""
    inner = list(folder.iterdir())
    while len(inner) == 1 and inner[0].is_dir():
        folder = inner[0]
        inner = list(folder.iterdir())
    return folder
