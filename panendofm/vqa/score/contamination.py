"""Could a model have seen the bench's images? Each is looked for among shards and folders of images.

An image counts as seen when a file is equal to the one it was made from, or when a frame shows the same, whatever was
done to it: re-encoded, resized, cropped, another brightness.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from panendofm.imaging.leakage import LeakageConfig, build_guard
from panendofm.records.documents import read_document, write_document
from panendofm.records.shards import ShardFolder, read_index
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import sha256_of
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.images.copies import content_thumbnail, guarded_bench, image_files
from panendofm.vqa.score.config import ContaminationConfig


@dataclass(frozen=True)
class Sighting:
    """An image of the bench that was found elsewhere."""

    sha256: str
    place: str  # name of the shard set or folder
    sample: str  # key of the frame, or name of the file
    how: str  # equal file, or looks the same
    correlation: float


@dataclass(frozen=True)
class Place:
    """Where was looked, and how many images there are."""

    name: str
    images: int


@dataclass(frozen=True)
class ContaminationReport:
    bench_sha256: str
    places: list[Place]
    images: int
    seen: list[str]
    sightings: list[Sighting]
    format: Literal[2] = 2


def find_contamination(bench: Bench, config: ContaminationConfig) -> ContaminationReport:
    """Look for every image of the bench, and write what was found."""
    guard = build_guard(guarded_bench(bench))
    originals = {item.sha256 for item in bench.items}
    leakage = LeakageConfig()
    sightings: dict[tuple[str, str, str], Sighting] = {}
    places = []
    for path, total, frames in [
        *(_shard_frames(Path(folder)) for folder in config.shards),
        *(_folder_frames(Path(folder)) for folder in config.images),
    ]:
        looked_at = 0
        for sample, digest, content in track(frames, f"comparing {path.name}", total, "frames"):
            looked_at += 1
            found = None
            if digest in originals:
                found = Sighting(digest, path.name, sample, "equal file", 1.0)
            else:
                thumbnail = content_thumbnail(content, sample)
                match = guard.match(thumbnail, leakage) if thumbnail is not None else None
                if match is not None:
                    found = Sighting(match.name, path.name, sample, "looks the same", match.correlation)
            if found is not None:
                sightings[found.sha256, found.place, found.sample] = found
        places.append(Place(path.name, looked_at))
    seen = sorted({found.sha256 for found in sightings.values()})
    ordered = [sightings[key] for key in sorted(sightings)]
    report = ContaminationReport(bench.checksum, places, len(originals), seen, ordered)
    write_document(config.out, report)
    names = ", ".join(place.name for place in places)
    say(f"{len(seen)} of {len(originals)} images were found in {names} → {config.out}")
    return report


def read_contamination(path: Path, bench: Bench) -> ContaminationReport:
    report = read_document(ContaminationReport, path, "a report of 'vqa contamination'", "write it anew")
    if report.bench_sha256 != bench.checksum:
        raise UserError(f"{path} was written for another bench; write it anew.")
    return report


Frames = Iterator[tuple[str, str, bytes]]  # name, checksum of the file (empty: not an original), content


def _shard_frames(path: Path) -> tuple[Path, int, Frames]:
    """Every frame of a shard set. Frames were cut and encoded anew, so that none equals an original file."""
    folder = ShardFolder(path)
    folder.refuse_unfinished()
    manifest = folder.read_manifest()

    def frames() -> Frames:
        for name in manifest.shards:
            with naming_path("read the shard", path / name), (path / name).open("rb") as stream:
                for key, offset, size, _, _ in read_index(path / name).samples:
                    stream.seek(offset)
                    yield key, "", stream.read(size)

    return path, manifest.frames, frames()


def _folder_frames(path: Path) -> tuple[Path, int, Frames]:
    files = image_files(path)
    frames = ((file.relative_to(path).as_posix(), sha256_of(file), file.read_bytes()) for file in files)
    return path, len(files), frames
