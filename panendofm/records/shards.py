"""A shard set: plain WebDataset tars, an index each, the manifest of all frames, and the leakage certificate.

The index `shard-000000.index.json` lists for every sample: key, offset and size of the JPEG, offset and size of the
JSON, all in bytes of the tar file; and how many bytes the tar has in all.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

import pyarrow as pa

from panendofm.records.documents import read_document, write_document
from panendofm.records.folder import Inside
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import LONGEST_NAME
from panendofm.runtime.parquet_files import read_parquet

_MOST_BYTES = 1 << 50  # of a tar


class FrameRow(TypedDict, total=False):
    """A row of the manifest as Python values; sets that others made lack most of them."""

    key: str
    corpus: str
    component: str | None
    source: str
    video: str | None
    patient: str | None
    organ: str | None
    licence: str | None
    frame: int
    seconds: float
    original_width: int
    original_height: int
    crop: list[int]
    shape: str
    width: int
    height: int
    hash: str
    brightness: float
    washed_out: float
    sharpness: float
    text_filled: float
    sha256: str
    shard: int


# One row of the manifest per frame; the number of its shard is added last.
FRAME_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("corpus", pa.string()),
        ("component", pa.string()),
        ("source", pa.string()),
        ("video", pa.string()),
        ("patient", pa.string()),
        ("organ", pa.string()),
        ("licence", pa.string()),
        ("frame", pa.int64()),
        ("seconds", pa.float64()),
        ("original_width", pa.int32()),
        ("original_height", pa.int32()),
        ("crop", pa.list_(pa.int32(), 4)),
        ("shape", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("hash", pa.string()),
        ("brightness", pa.float64()),
        ("washed_out", pa.float64()),
        ("sharpness", pa.float64()),
        ("text_filled", pa.float64()),
        ("sha256", pa.string()),
    ]
)


@dataclass(frozen=True)
class GuardedSet:
    """One evaluation set as the certificate names it."""

    name: str
    images: int = 0
    unreadable: int = 0
    fingerprint: str | None = None
    frames_dropped: int = 0


@dataclass(frozen=True)
class Certificate:
    """Which evaluation sets were kept out of the shards, how, and what was found."""

    guarded_sets: list[GuardedSet] = field(default_factory=list)
    frames_checked: int = 0
    frames_dropped: int = 0
    images_found: list[str] = field(default_factory=list)  # SHA-256 of the files: a name may be a patient's
    method: dict[str, str | int | float | list[str]] = field(default_factory=dict)
    known_overlaps: list[dict[str, str]] = field(default_factory=list)


@dataclass
class CorpusCounts:
    """What became of one corpus."""

    sources: int = 0
    seen: int = 0  # frames that were looked at
    kept: int = 0
    broken_files: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # reason → frames


@dataclass(frozen=True)
class AuditedSource:
    """Of a source with text: how many frames were read, and on how many there is text."""

    read: int
    text: int


@dataclass(frozen=True)
class TextAudit:
    """Frames that were read, as they came and in the shards; of these with text, and with something private."""

    before_read: int = 0
    before_text: int = 0
    before_private: int = 0
    after_read: int = 0
    after_text: int = 0
    after_private: int = 0
    sources_read: int = 0
    sources_with_moving_text: int = 0
    sources_with_text: dict[str, AuditedSource] = field(default_factory=dict)  # by their hashed names


@dataclass(frozen=True)
class Manifest:
    """manifest.json: what a shard set holds, in counts, and its certificate."""

    shards: list[str]
    frames: int = 0
    corpora: dict[str, CorpusCounts] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)  # reason → sources
    licenses: list[str] = field(default_factory=list)
    text_audit: TextAudit = field(default_factory=lambda: TextAudit())
    leakage: Certificate | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    format: Literal[1] = 1


@dataclass(frozen=True)
class CorpusFrames:
    """How much of a shard set is of one corpus, and under which license."""

    name: str
    license: str | None  # None: the set does not say
    frames: int


@dataclass(frozen=True)
class ShardIndex:
    """Where the samples of one shard lie: (key, offset and size of the JPEG, offset and size of the JSON)."""

    shard: str
    samples: list[tuple[str, int, int, int, int]]
    tar_bytes: int | None = None
    format: Literal[1, 2] = 2  # 1 had no `tar_bytes`


@dataclass(frozen=True)
class ShardFolder:
    """The paths of one shard set."""

    path: Path

    manifest = Inside("manifest.json")
    frames = Inside("manifest.parquet")  # one row per frame, by FRAME_SCHEMA and its `shard`
    examples = Inside("examples.parquet")  # small images of what was kept and dropped, for the report
    checksums = Inside("SHA256SUMS")  # written last: it marks the set as whole
    config = Inside("config.yaml")
    report = Inside("report.html")
    croissant = Inside("croissant.json")  # for programs that list datasets; made with the report

    def refuse_unfinished(self) -> None:
        if not self.checksums.is_file():
            raise UserError(
                f"{self.path} holds no finished set ({self.checksums.name} is missing); run shard first, or check out."
            )

    def shard_files(self) -> list[Path]:
        """The tars and indexes that are there, of a finished set or not."""
        return [*self.path.glob("shard-*.tar"), *self.path.glob("shard-*.index.json")]

    def has_indexes(self) -> bool:
        """Tars of others have none: this is a set of ours, finished or not."""
        return any(self.path.glob("shard-*.index.json"))

    def read_manifest(self) -> Manifest:
        manifest = read_document(Manifest, self.manifest, "the manifest of a shard set")
        for name in manifest.shards:
            if Path(name).name != name or len(name) > LONGEST_NAME - len(index_name("")):
                raise UserError(f"{self.manifest}: {name[:100]!r} is no name of a shard; restore the file.")
        return manifest

    def read_corpora(self) -> list[CorpusFrames]:
        """What the frames are of, the largest part first. Sets that others made may name no licenses."""
        names = ("corpus", "licence")
        remedy = "make the shards again, or restore the file"
        table = read_parquet(self.frames, remedy, names[:1], dictionaries=names, optional=names[1:])
        counted = table.unify_dictionaries().group_by(table.column_names).aggregate([([], "count_all")])
        found = [CorpusFrames(row["corpus"], row.get("licence"), row["count_all"]) for row in counted.to_pylist()]
        return sorted(found, key=lambda part: (-part.frames, part.name, part.license or ""))

    def write_manifest(self, manifest: Manifest) -> None:
        write_document(self.manifest, manifest)


@dataclass(frozen=True)
class PrivateFolder:
    """What belongs to a shard set and is never published: it leads from hashes back to files and patients."""

    path: Path

    key = Inside("key")  # the secret of the keyed hashes
    sources = Inside("sources.parquet")  # real paths beside published hashes
    config = Inside("config.yaml")  # the whole configuration; what is published of it names no folder of this machine
    painted = Inside("painted.parquet")  # frames as they came beside their finished form, where text was painted over
    report = Inside("report.html")  # the page of what must not be published: real names, images as they came
    finished = Inside("run.json")  # which plan the finished set is of


def shard_name(number: int) -> str:
    return f"shard-{number:06d}.tar"


def index_name(shard: str) -> str:
    return shard.removesuffix(".tar") + ".index.json"


def write_index(path: Path, samples: list[tuple[str, int, int, int, int]], tar_bytes: int) -> None:
    """The index of the tar at `path`."""
    write_document(path.with_name(index_name(path.name)), ShardIndex(path.name, samples, tar_bytes))


def read_index(path: Path) -> ShardIndex:
    """The index of the tar at `path`, which need not be there itself."""
    file = path.with_name(index_name(path.name))
    index = read_document(ShardIndex, file, "the index of a shard")
    end = _MOST_BYTES if index.tar_bytes is None else index.tar_bytes
    for key, *places in index.samples:
        if min(places) < 0 or max(places[0] + places[1], places[2] + places[3]) > min(end, _MOST_BYTES):
            raise UserError(f"{file}: the place of {key} lies outside the shard; make the shards again.")
    if index.tar_bytes is None:
        return ShardIndex(index.shard, index.samples, _tar_bytes(index.samples), index.format)
    return index


def _tar_bytes(samples: list[tuple[str, int, int, int, int]]) -> int:
    """Behind the last member a tar has two empty blocks, and is filled up to whole records."""
    end = max((max(s[1] + s[2], s[3] + s[4]) for s in samples), default=0)
    return _padded(_padded(end, tarfile.BLOCKSIZE) + 2 * tarfile.BLOCKSIZE, tarfile.RECORDSIZE)


def _padded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def fingerprint(images: Iterable[tuple[str, str]]) -> str:
    """One checksum for a set of (sha256, name) of images, wherever its folder is: contents and bare file names."""
    lines = sorted(f"{sha256}  {Path(name).name}\n" for sha256, name in images)
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
