"""WebDataset tars of any origin: members that share a name up to its first dot are one sample."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from panendofm.imaging.images import is_image
from panendofm.importing.image_folder import file_facts
from panendofm.importing.samples import Facts, Sample, facts_of, is_jpeg
from panendofm.runtime.errors import UserError

_MOST_JSON_BYTES = 1 << 20
_HEAD_BYTES = 3


class Place(NamedTuple):
    """Where a member's content lies in its tar."""

    offset: int
    size: int


@dataclass(frozen=True)
class TarSample:
    key: str  # of the whole set: the tar's name and the sample's
    image: Place
    record: Place  # of its JSON file; empty without one
    facts: Facts
    jpeg: bool


class Tars:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.resolve().name

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.tar"))

    def count(self) -> int:
        return sum(len(self.index(tar)) for tar in self.files())

    def samples(self) -> Iterator[Sample]:
        for tar in self.files():
            with tar.open("rb") as stream:
                for found in self.index(tar):
                    stream.seek(found.image.offset)
                    yield Sample(found.key, stream.read(found.image.size), found.facts.video, found.facts.corpus)

    def facts(self) -> list[str]:
        return [file_facts(path, self.folder) for path in self.files()]

    def index(self, tar: Path) -> list[TarSample]:
        """From the headers alone; of the contents only JSON files and the first bytes of images are read."""
        images: dict[str, Place] = {}
        records: dict[str, Place] = {}
        with _readable(tar) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                key = str(path.with_name(path.name.partition(".")[0]))
                place = Place(member.offset_data, member.size)
                if not member.isfile() or path.name.startswith("."):
                    continue
                if is_image(path):
                    if key in images:
                        raise UserError(f"{tar}: the sample {key} has two images; pack one image a sample.")
                    images[key] = place
                elif path.suffix == ".json" and member.size <= _MOST_JSON_BYTES:
                    records[key] = place
        prefix = tar.relative_to(self.folder).with_suffix("").as_posix()
        with tar.open("rb") as stream:
            return [
                TarSample(
                    key=f"{prefix}/{key}",
                    image=place,
                    record=records.get(key, Place(0, 0)),
                    facts=_facts_at(stream, records[key]) if key in records else Facts(),
                    jpeg=is_jpeg(_read(stream, Place(place.offset, _HEAD_BYTES))),
                )
                for key, place in images.items()
            ]


@contextmanager
def _readable(tar: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(tar, "r:") as archive:
            yield archive
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UserError(
            f"{tar} is not a whole, uncompressed tar file ({error}); copy it again, or unpack it."
        ) from error


def _read(stream: IO[bytes], place: Place) -> bytes:
    stream.seek(place.offset)
    return stream.read(place.size)


def _facts_at(stream: IO[bytes], place: Place) -> Facts:
    try:
        return facts_of(json.loads(_read(stream, place)))
    except (ValueError, RecursionError):
        return Facts()  # a file of others, whose form is theirs
