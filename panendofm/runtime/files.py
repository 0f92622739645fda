"""Files that are whole or absent, checksums, safe names, and a lock for run directories.

Everything is written under a temporary name in the same folder, flushed to disk and renamed. A reader, or a process
that starts after a crash, sees the old content or the new, never a part.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import xxhash

from panendofm.runtime.errors import UserError, naming_path

# Left behind only by a process that was killed while it wrote; `remove_leftovers` finds them by this mark.
TEMPORARY_MARK = ".partial-"
LONGEST_NAME = 255  # of a file, on every file system


def _temporary_sibling(path: Path) -> Path:
    return path.with_name(f".{path.name}{TEMPORARY_MARK}{os.getpid()}-{os.urandom(4).hex()}")


def sync_directory(directory: Path) -> None:
    """Make a rename inside `directory` survive a power cut, where the file system knows how to."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # what some network file systems say of folders
            raise
    finally:
        os.close(descriptor)


def make_private_directory(path: Path | str) -> Path:
    """A folder that its owner alone may read, and so all that is in it, also when it was there before."""
    path = make_directory(path)
    with naming_path("close to others", path):
        path.chmod(0o700)
        for inner in path.rglob("*"):
            if not inner.is_symlink():
                inner.chmod(0o700 if inner.is_dir() else 0o600)
    return path


def user_cache(stage: str) -> Path:
    """A stage's folder in the user's cache folder; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "panendofm" / stage


def make_directory(path: Path | str) -> Path:
    """Create a folder and its parents; it may exist already."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise UserError(f"cannot create the folder {path}: a file of that name is there; choose another name.")
    with naming_path("create the folder", path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def atomic_file(path: Path | str) -> Iterator[IO[bytes]]:
    """A binary file that appears at `path` only when the block ends without an error."""
    path = Path(path)
    make_directory(path.parent)
    temporary = _temporary_sibling(path)
    with naming_path("write", path):
        try:
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
            sync_directory(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_bytes(path: Path | str, content: bytes) -> None:
    with atomic_file(path) as stream:
        stream.write(content)


def write_text(path: Path | str, content: str) -> None:
    # A file name that is not UTF-8 has stand-ins in Python's text; as \\udcfc they are valid JSON, and readable.
    write_bytes(path, content.encode(errors="backslashreplace"))


def write_json(path: Path | str, content: Any) -> None:
    """JSON with sorted keys: equal content gives equal bytes. NaN and infinity are refused, JSON has neither."""
    write_text(path, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path | str) -> str:
    with naming_path("read", path):
        content = Path(path).read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: it is not UTF-8 text (byte {error.start}).") from error


def read_json(path: Path | str) -> Any:
    return parse_json(read_text(path), path)


def read_json_object(path: Path | str) -> dict[str, Any]:
    """The same for a file that must hold names and values."""
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f"cannot read {path}: it holds no names and values ({{…}}); restore the file.")
    return values


def append_json_line(path: Path | str, values: Any) -> None:
    """One more line of a .jsonl file. Lines that several processes append don't mix, because each is one write."""
    line = json.dumps(values, ensure_ascii=False) + "\n"
    with naming_path("write", path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def parse_json(text: str, source: Path | str) -> Any:
    """The values of a JSON text that stands at `source`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"cannot read {source}: it is not valid JSON (line {error.lineno}: {error.msg}).") from error
    except RecursionError:
        raise UserError(f"cannot read {source}: it is nested too deeply.") from None
    except ValueError as error:  # a number of more digits than Python converts
        raise UserError(f"cannot read {source}: {str(error).split(';')[0]}.") from error


def read_json_lines(path: Path | str) -> list[dict[str, Any]]:
    """The objects of a .jsonl file. A last line without its end (torn by a kill, or being written) is left out."""
    path = Path(path)
    with naming_path("read", path):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    values: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
            raise UserError(
                f"cannot read {path}: line {number} is not valid JSON ({problem}); restore or remove the line."
            ) from error
        if not isinstance(value, dict):
            raise UserError(f"cannot read {path}: line {number} is no {{…}}; restore or remove the line.")
        values.append(value)
    return values


@contextmanager
def atomic_directory(path: Path | str) -> Iterator[Path]:
    """A folder that appears at `path`, complete, only when the block ends without an error.

    The block gets a temporary folder to fill. `path` must not exist yet (an empty folder may), because a folder can't
    be replaced in one step.
    """
    path = Path(path)
    make_directory(path.parent)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"cannot write {path}: it exists already; remove it or choose another name.")
    temporary = _temporary_sibling(path)
    with naming_path("write", path):
        try:
            temporary.mkdir()
            yield temporary
            for inner in temporary.rglob("*"):
                if inner.is_file() and not inner.is_symlink():
                    with inner.open("rb") as stream:
                        os.fsync(stream.fileno())
                elif inner.is_dir():
                    sync_directory(inner)
            sync_directory(temporary)
            temporary.rename(path)
            sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def remove_leftovers(directory: Path | str) -> list[Path]:
    """Remove what killed processes left half-written in `directory`. Call it only while holding its lock."""
    leftovers = sorted(path for path in Path(directory).iterdir() if TEMPORARY_MARK in path.name)
    for path in leftovers:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:  # also a link to a folder, which is not ours to empty; its writer may be done with it by now
            path.unlink(missing_ok=True)
    return leftovers


def replace_link(link: Path | str, target: Path | str) -> None:
    """Point the symbolic link `link` at `target` in one step, whatever it pointed at before."""
    link = Path(link)
    temporary = _temporary_sibling(link)
    with naming_path("write the link", link):
        temporary.symlink_to(target)
        temporary.replace(link)
        sync_directory(link.parent)


def sha256_of(path: Path | str) -> str:
    with naming_path("read", path), Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def damage_checksum(path: Path | str) -> str:
    """XXH3 of a file: many times as fast as SHA-256, and sure to notice damage, though not an adversary."""
    digest = xxhash.xxh3_128()
    block = memoryview(bytearray(1 << 22))
    with naming_path("read", path), Path(path).open("rb", buffering=0) as stream:
        while count := stream.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()


def write_checksums(directory: Path | str, names: Iterable[str], checksum_file: str = "SHA256SUMS") -> None:
    """Write the checksums of files below `directory`, in the format that `sha256sum --check` reads."""
    directory = Path(directory)
    write_text(directory / checksum_file, "".join(f"{sha256_of(directory / n)}  {n}\n" for n in sorted(names)))


def read_checksums(path: Path | str) -> dict[str, str]:
    """The checksums of a file that `write_checksums` has written, by name; all names lie below its folder."""
    checksums: dict[str, str] = {}
    for line in read_text(path).splitlines():
        digest, separator, name = line.partition("  ")
        if not separator or not re.fullmatch("[0-9a-f]{64}", digest) or not name:
            raise UserError(f"cannot read {path}: the line {line[:200]!r} is not a checksum and a name.")
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts or name in checksums or max(map(len, parts)) > LONGEST_NAME:
            raise UserError(f"cannot read {path}: {name[:200]!r} stands there twice, outside its folder or too long.")
        checksums[name] = digest
    return checksums


def failed_checksums(directory: Path | str, checksum_file: str = "SHA256SUMS") -> list[str]:
    """Names of the listed files that are missing or have changed; empty when all is well."""
    directory = Path(directory)
    checksums = read_checksums(directory / checksum_file)
    return [n for n, digest in checksums.items() if not (directory / n).is_file() or sha256_of(directory / n) != digest]


def safe_name(text: str, max_length: int = 120) -> str:
    """A file name made of letters, digits, `.`, `_` and `-`, for any text; different texts get different names."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", ascii_text).lstrip("._").rstrip("_")
    if name and name == text and len(name) <= max_length:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{name[: max_length - 9]}-{digest}" if name else digest
