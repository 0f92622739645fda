"""Which line means which image: names are compared without folder and extension, or by their whole path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Literal

Match = Literal["stem", "path"]
Key = tuple[str, int]  # name, frame (0 for images)


def image_name(file: str, match: Match) -> str:
    path = PurePosixPath(file.replace("\\", "/"))
    return path.stem if match == "stem" else str(path.with_suffix("")) if path.name else str(path)


def resolve(name: str, known: Mapping[str, object], match: Match) -> str | None:
    """The name in `known` that is meant; of a long path any ending that starts at a folder will do."""
    if name in known:
        return name
    if match == "path":
        parts = PurePosixPath(name).parts
        for start in range(1, len(parts)):
            ending = str(PurePosixPath(*parts[start:]))
            if ending in known:
                return ending
    return None


def some(names: Iterable[str]) -> str:
    """«a (and 3 more)»"""
    ordered = list(names)
    return ordered[0] + (f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else "")
