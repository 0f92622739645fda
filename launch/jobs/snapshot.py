"""A copy of the code for a queued job, so that edits made later don't change it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory

SOURCE = Path(__file__).resolve().parent.parent.parent
# All that the wheel installs: jobs run any stage.
PACKAGES = ("data_pipeline", "eval_knn", "launch", "panendofm", "pretrain")


def take_snapshot(folder: Path, source: Path = SOURCE) -> Path:
    """Copy the packages below `source` to `folder/HASH`. Equal code gives the same folder, which is copied once."""
    files = sorted(path for package in PACKAGES for path in _files_of(source / package))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(source)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    target = folder / digest.hexdigest()[:12]
    if not target.is_dir():
        try:
            with atomic_directory(target) as temporary:
                for path in files:
                    copy = temporary / path.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, copy)
        except (OSError, UserError):
            if not target.is_dir():  # else another submission has just copied the same code
                raise
    return target


def _files_of(package: Path) -> list[Path]:
    # In a checkout panendofm/configs is a link, which a job needs as plain files.
    folders = [Path(folder) for folder, _, _ in os.walk(package, followlinks=True)]
    return [path for folder in folders if folder.name != "__pycache__" for path in folder.iterdir() if path.is_file()]
