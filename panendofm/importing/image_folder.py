"""A folder of images, with folders in it or without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from panendofm.imaging.images import is_image
from panendofm.importing.samples import Sample
from panendofm.runtime.errors import naming_path


class ImageFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.resolve().name

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if is_image(path) and path.is_file())

    def count(self) -> int:
        return len(self.files())

    def samples(self) -> Iterator[Sample]:
        for path in self.files():
            with naming_path("read the image", path):
                yield Sample(path.name, path.read_bytes())

    def facts(self) -> list[str]:
        return [file_facts(path, self.folder) for path in self.files()]


def file_facts(path: Path, below: Path) -> str:
    status = path.stat()
    return f"{path.relative_to(below).as_posix()} {status.st_size} {status.st_mtime_ns}"
