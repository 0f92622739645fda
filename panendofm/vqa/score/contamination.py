"""Could a model have seen the bench's pictures? Each is looked for among shards and folders of pictures.

A picture counts as seen when a file is equal to the one it was made from, or when a frame shows the same, whatever was
done to it: re-encoded, resized, cropped, another brightness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import FieldOfViewConfig
from panendofm.imaging.frame_filters.field_of_view import detect_field_of_view
from panendofm.imaging.images import UnreadableImageError, decode_image, is_image
from panendofm.imaging.leakage import Guard, LeakageConfig, Thumbnail, build_guard, guarded_image, thumbnail_of
from panendofm.records.shards import ShardFolder, read_index
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_json, sha256_of, write_json
from panendofm.vqa.bench.items import Bench

FORMAT = 1


@dataclass(frozen=True)
class Sighting:
    """A picture of the bench that was found elsewhere."""

    sha256: str
    place: str  # name of the shard set or folder
    sample: str  # key of the frame, or name of the file
    how: str  # equal file, or looks the same
    correlation: float


def find_contamination(bench: Bench, shards: Sequence[Path], folders: Sequence[Path], out: Path) -> None:
    """Look for every picture of the bench, and write what was found."""
    guard = _index_of(bench)
    originals = {item.sha256 for item in bench.items}
    config = LeakageConfig()
    sightings: list[Sighting] = []
    places = []
    for path, total, frames in [_shard_frames(p) for p in shards] + [_folder_frames(p) for p in folders]:
        looked_at = 0
        for sample, digest, content in track(frames, f"comparing {path.name}", total, "frames"):
            looked_at += 1
            if digest in originals:
                sightings.append(Sighting(digest, path.name, sample, "equal file", 1.0))
                continue
            thumbnail = _thumbnail(content, sample)
            match = guard.match(thumbnail, config) if thumbnail is not None else None
            if match is not None:
                sightings.append(Sighting(match.name, path.name, sample, "looks the same", match.correlation))
        places.append({"name": path.name, "pictures": looked_at})
    unique = {(s.sha256, s.place, s.sample): s for s in sightings}
    found = sorted({s.sha256 for s in unique.values()})
    write_json(
        out,
        {
            "format": FORMAT,
            "bench_sha256": bench.checksum,
            "places": places,
            "pictures": len(originals),
            "seen": found,
            "sightings": [asdict(unique[key]) for key in sorted(unique)],
        },
    )
    names = ", ".join(path.name for path in [*shards, *folders])
    say(f"{len(found)} of {len(originals)} pictures were found in {names} → {out}")


def read_contamination(path: Path, bench: Bench) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} is no report of 'vqa contamination'; write it anew.")
    if content["bench_sha256"] != bench.checksum:
        raise UserError(f"{path} was written for another bench; write it anew.")
    return content


def _index_of(bench: Bench) -> Guard:
    """Thumbnails of the bench's pictures; one without drawn marks where there is one."""
    best = {}
    for item in bench.items:
        marked = any(region.color for region in item.regions)
        if item.image and (item.sha256 not in best or not marked):
            best[item.sha256] = item
    images = []
    for sha256, item in sorted(best.items()):
        thumbnail = _thumbnail(bench.picture(item), item.image)
        images.append(guarded_image(sha256, sha256, thumbnail))
    return build_guard(images)


def _thumbnail(content: bytes, name: str) -> Thumbnail | None:
    try:
        rgb = decode_image(content, name)
    except UnreadableImageError:
        return None
    view = detect_field_of_view([rgb], FieldOfViewConfig())
    if view is None:
        return None
    left, top, right, bottom = view.box
    part: NDArray[np.uint8] = rgb[top:bottom, left:right]
    return thumbnail_of(part, view.cropped_to((right - left, bottom - top)).mask())


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
    if not path.is_dir():
        raise UserError(f"{path} is no folder of pictures; check the path.")
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and is_image(file)]
    frames = ((file.relative_to(path).as_posix(), sha256_of(file), file.read_bytes()) for file in files)
    return path, len(files), frames
