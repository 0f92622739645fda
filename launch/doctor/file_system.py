"""The file system of the run's folder: renames, locks, flushes, speed and space."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from launch.doctor.page_cache import unflushed_pages
from launch.doctor.rows import Row, judged
from panendofm.records.shards import ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, make_directory, sync_directory, write_bytes
from panendofm.runtime.locks import directory_lock, has_flock
from pretrain import PretrainConfig, Requirements, most_checkpoints

_OLD, _NEW = b"old" * 1000, b"new" * 1000
_BLOCK, _BLOCKS = 1 << 20, 64
_SLOWEST_MB_PER_SECOND = 20.0
_LONGEST_SAVE_SECONDS = 600.0
_REFUSED = 3
_ANOTHER_PROCESS = f"""
import sys
sys.path[:0] = {sys.path!r}
from panendofm.runtime.errors import UserError
from panendofm.runtime.locks import directory_lock
try:
    with directory_lock(sys.argv[1]):
        pass
except UserError:
    sys.exit({_REFUSED})
"""
NO_FLOCK_FOUND = "this file system has no flock"
NO_FLOCK_REMEDY = (
    "mount it with flock (Lustre: -o flock; NFS: with its lock daemon). Until then a file stands for the lock: a run "
    "that was killed on another node may have to be freed by hand, the sentence says how"
)


def check_file_system(folder: Path, config: PretrainConfig, needs: Requirements) -> Iterator[Row]:
    make_directory(folder)
    yield _rename(folder)
    yield _lock(folder)
    yield _flush(folder)
    yield _speed(folder, needs)
    yield _space(folder, config, needs)


def _rename(folder: Path) -> Row:
    """A file and a folder appear whole, and a file is replaced without a moment in which it is away."""
    file, tree = folder / "renamed", folder / "tree"
    write_bytes(file, _OLD)
    with file.open("rb") as reader:
        write_bytes(file, _NEW)
        problems = [] if reader.read() == _OLD else ["a reader lost the file that it had open"]
    if file.read_bytes() != _NEW:
        problems.append("a replaced file has its old content")
    with atomic_directory(tree) as temporary:
        (temporary / "inner").write_bytes(_NEW)
        if tree.exists():
            problems.append("a folder was visible before it was whole")
    if not (tree / "inner").is_file() or (tree / "inner").read_bytes() != _NEW:
        problems.append("a renamed folder is not whole")
    left = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
    if left:
        problems.append("a renamed file is still there under its first name")
    shutil.rmtree(tree, ignore_errors=True)
    remedy = "put run.dir on another file system: checkpoints could be torn here"
    return judged("rename", not problems, "; ".join(problems) or "files and folders appear whole", remedy)


def _lock(folder: Path) -> Row:
    """Held by this process, refused to another one, free when that has ended."""
    if not has_flock(folder):
        return Row("locks", "warn", NO_FLOCK_FOUND, NO_FLOCK_REMEDY)
    with directory_lock(folder):
        other = subprocess.run([sys.executable, "-c", _ANOTHER_PROCESS, str(folder)], timeout=120, check=False)
    problems = [] if other.returncode == _REFUSED else ["two processes hold the same folder"]
    if held_elsewhere(folder):
        problems.append("a folder stays held after its holder has let go")
    remedy = "put run.dir on another file system, or mount this one with flock: two jobs could write one run here"
    return judged("locks", not problems, "; ".join(problems) or "one holder at a time", remedy)


def held_elsewhere(folder: Path) -> bool:
    """Whether another process has the folder."""
    try:
        with directory_lock(folder):
            return False
    except UserError:
        return True


def _flush(folder: Path) -> Row:
    """What the product's own writer has written must be on the disk when it says so."""
    path = folder / "flushed"
    write_bytes(path, os.urandom(4 << 20))
    left = unflushed_pages(path)
    sync_directory(folder)
    remedy = (
        "files that count as saved would not survive a power cut: put run.dir on another file system, and if that does "
        "not help, report it with doctor.json"
    )
    if left is None:
        return Row("fsync", "pass", "files and folders take it (this kernel can't tell whether the bytes have left)")
    found = "written files are on the disk" if left == 0 else f"{left} pages of a flushed file are still in memory only"
    return judged("fsync", left == 0, found, remedy, unflushed_pages=left)


def _speed(folder: Path, needs: Requirements) -> Row:
    """Written and flushed as a checkpoint is, against the checkpoint of this config."""
    path, block = folder / "speed", os.urandom(_BLOCK)
    began = time.perf_counter()
    with path.open("wb") as stream:
        for _ in range(_BLOCKS):
            stream.write(block)
            if time.perf_counter() - began > _BLOCKS * _BLOCK / 1e6 / _SLOWEST_MB_PER_SECOND * 2:
                break  # slow enough to know
        stream.flush()
        os.fsync(stream.fileno())
    seconds = time.perf_counter() - began
    speed = path.stat().st_size / 1e6 / seconds
    path.unlink()
    save_seconds = needs.parameters.checkpoint_bytes / 1e6 / speed
    good = speed >= _SLOWEST_MB_PER_SECOND and save_seconds <= _LONGEST_SAVE_SECONDS
    found = f"{speed:,.0f} MB/s written; one process would save a checkpoint of this config in {save_seconds:.1f} s"
    remedy = (
        "put run.dir on a faster file system; save less often (checkpoint.every_steps), and raise the cluster file's "
        "warn_seconds above the time of a save"
    )
    return judged("disk speed", good, found, remedy, "warn", mb_per_second=round(speed, 1))


def _space(folder: Path, config: PretrainConfig, needs: Requirements) -> Row:
    free = shutil.disk_usage(folder).free
    count = most_checkpoints(config, _total_steps(config))
    needed = needs.parameters.checkpoint_bytes * count
    found = f"{free / 1e9:,.1f} GB free, {needed / 1e9:,.1f} GB for up to {count} checkpoints of a run"
    remedy = (
        "free some space, choose another run.dir, or keep fewer checkpoints (checkpoint.keep_last, "
        "checkpoint.keep_every_steps, checkpoint.keep_unscored)"
    )
    return judged("disk space", free >= needed, found, remedy, free_gb=round(free / 1e9, 1), checkpoints=count)


def _total_steps(config: PretrainConfig) -> int | None:
    """None where the length depends on shards that are not there yet."""
    shards = ShardFolder(Path(config.data.shards))
    images = sum(corpus.frames for corpus in shards.read_corpora()) if shards.frames.is_file() else None
    try:
        return config.total_steps(images)
    except UserError:
        return None
