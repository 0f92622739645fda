"""Why a folder gives no images, in one sentence: archives are packed, or another folder is the right one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from panendofm.imaging.images import is_image

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".xz", ".bz2")
# Enough to know what a folder is like; a corpus has hundreds of thousands of files.
_LOOKED_AT = 2000
_LEVELS = 3


def archives_hint(folder: Path) -> str | None:
    """That archives lie there packed."""
    packed = [path for path in _files(folder) if path.suffix.lower() in _ARCHIVES]
    if not packed:
        return None
    many = f"{len(packed)} archives" if len(packed) > 1 else "an archive"
    return f"{many} lie there packed ({packed[0].name}): unpack them"


def right_folder(folder: Path, fits: Callable[[Path, str], bool]) -> Path | None:
    """The folder above or below from which most images lie as they should: `fits(folder, path below it)` tells."""
    inside = folder.absolute()
    votes: Counter[Path] = Counter()
    for path in _files(inside):
        if not is_image(path):
            continue
        above = list(path.relative_to(inside).parents)[:-1]
        for root in [*inside.parents[:_LEVELS], *(inside / below for below in above)]:
            relative = path.relative_to(root)
            if fits(root, relative.with_suffix(relative.suffix.lower()).as_posix()):
                votes[root] += 1
    return votes.most_common(1)[0][0] if votes else None


def holds_images(folder: Path) -> bool:
    return any(is_image(path) for path in _files(folder))


def folders_around(folder: Path, levels: int = 2 * _LEVELS) -> Iterator[Path]:
    """The folders above, nearest first, then those below, level by level."""
    inside = folder.absolute()
    yield from inside.parents[:_LEVELS]
    level = [inside]
    for _ in range(levels):
        level = [
            child
            for parent in level
            for child in sorted(parent.iterdir())
            if child.is_dir() and not child.is_symlink() and not child.name.startswith(".")
        ][:_LOOKED_AT]
        yield from level


def _files(folder: Path) -> list[Path]:
    walk = (Path(here) / name for here, _, names in os.walk(folder) for name in sorted(names))
    return list(islice(walk, _LOOKED_AT))
