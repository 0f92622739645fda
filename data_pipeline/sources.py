"""What a corpus holds: a pure listing, without opening a single file.

A corpus has a table of rules (panendofm/atlas/corpora). A rule is a pattern for paths below the corpus root, and says
what the files are and where the names of patient, video, organ and component stand in the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from panendofm.atlas import Corpus, FileRule
from panendofm.imaging.images import IMAGE_SUFFIXES
from panendofm.runtime.errors import UserError, naming_path

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mpg", ".mpeg", ".mov", ".mkv", ".wmv", ".m4v", ".webm"})

Kind = Literal["video", "sequence", "image"]


@dataclass(frozen=True)
class FoundFile:
    """A file below a corpus root."""

    path: str  # relative, with "/"
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class Source:
    """A video file, a folder of consecutive frames (a sequence), or a single image."""

    path: str  # relative to the corpus root, with "/"
    kind: Kind
    corpus: str
    license: str
    component: str | None = None
    patient: str | None = None
    video: str | None = None
    organ: str | None = None
    files: tuple[FoundFile, ...] = ()

    def __post_init__(self) -> None:
        for path in (self.path, *(file.path for file in self.files)):
            if not path or path.startswith("/") or ".." in path.split("/"):
                raise UserError(
                    f"corpus {self.corpus}: the path {path!r} leads out of its root; sources must lie inside it."
                )


def find_files(root: Path) -> list[FoundFile]:
    """All files below `root` with a video's or image's suffix, sorted by path. Hidden ones are left out."""
    return sorted((file for file in _walk(root, "") if is_media(file.path)), key=lambda file: file.path)


def is_media(path: str) -> bool:
    """Whether a file is a video or an image by its name."""
    return _suffix(path) in VIDEO_SUFFIXES | IMAGE_SUFFIXES


def _suffix(path: str) -> str:
    return "." + path.rpartition(".")[2].lower()  # pathlib takes seconds for a hundred thousand files


def _walk(folder: Path, prefix: str) -> Iterator[FoundFile]:
    with naming_path("read the folder", folder), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            # A link to a folder is not followed: it may lead in a circle, or out of the corpus.
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
            elif entry.is_file():
                status = entry.stat()
                yield FoundFile(prefix + entry.name, status.st_size, status.st_mtime_ns)


def list_sources(adapter: Corpus, corpus: str, files: Iterable[FoundFile], license: str | None = None) -> list[Source]:
    """The sources of a corpus, sorted by path. A file that no rule names is left out."""
    rules = [(re.compile(rule.pattern, re.IGNORECASE | re.DOTALL), rule) for rule in adapter.files]
    sources: list[Source] = []
    sequences: dict[str, list[FoundFile]] = {}
    details: dict[str, dict[str, str | None]] = {}
    for file in files:
        suffix = _suffix(file.path)
        for pattern, rule in rules:
            match = pattern.fullmatch(file.path)
            is_right_medium = rule.kind == "skip" or (rule.kind == "video") == (suffix in VIDEO_SUFFIXES)
            if match is None or not is_right_medium:
                continue
            if rule.kind == "sequence":
                folder = file.path.rpartition("/")[0] or "."
                sequences.setdefault(folder, []).append(file)
                details.setdefault(folder, _details(match, rule))
            elif rule.kind != "skip":
                found = _details(match, rule)
                sources.append(Source(file.path, rule.kind, corpus, license or adapter.license, files=(file,), **found))
            break
    for folder, members in sequences.items():
        ordered = tuple(sorted(members, key=lambda file: natural_order(file.path)))
        sources.append(Source(folder, "sequence", corpus, license or adapter.license, files=ordered, **details[folder]))
    return sorted(sources, key=lambda source: source.path)


def _details(match: re.Match[str], rule: FileRule) -> dict[str, str | None]:
    groups = match.groupdict()
    organ = groups.get("organ")
    return {
        "component": groups.get("component"),
        "patient": groups.get("patient"),
        "video": groups.get("video"),
        "organ": rule.organs.get(organ.lower()) if organ is not None else rule.organ,
    }


def natural_order(path: str) -> list[tuple[int, int, str]]:
    """Sort key by which frame 10 comes after frame 9."""
    parts = re.split(r"(\d+)", path)
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts]
