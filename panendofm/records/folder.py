"""Classes that say what lies in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Folder(Protocol):
    @property
    def path(self) -> Path: ...


class Inside:
    """A path inside the folder that a class describes: `page = Inside("index.html")`."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __get__(self, folder: Folder, owner: type) -> Path:
        return folder.path.joinpath(*self.names)
