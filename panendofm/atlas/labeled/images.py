"""The one reader of labeled sets: a folder per class, a CSV of files, or WebDataset shards with labels.

Reading a set hashes every image once. With a cache folder the result is kept by file size and time of change, so that
later runs only list the files.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from panendofm.atlas.datasets.layouts import read_table_of_files
from panendofm.atlas.datasets.readers import Item
from panendofm.imaging.frame_filters.clean import field_of_view_hash
from panendofm.imaging.groups import content_groups, linked_groups
from panendofm.imaging.images import IMAGE_SUFFIXES, UnreadableImageError, is_image, open_image
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import progress, warn
from panendofm.runtime.errors import UserError, naming_path

# Change it when records of the same files would be different from before.
_FORMAT = 3
_SPLIT_NAMES = {"train", "training", "val", "valid", "validation", "test", "testing", "dev", "holdout"}


@dataclass(frozen=True)
class LabeledImage:
    """One image: where its bytes are and what was found in them."""

    name: str  # path below the root; in a shard, followed by the member's name
    file: str  # path below the root
    offset: int
    size: int
    labels: tuple[str, ...]
    sha256: str
    hash: str  # perceptual hash of the field of view in hexadecimal; empty when the image can't be decoded
    links: tuple[str, ...] = ()  # patients, videos and groups; images that share one belong together
    split: str = ""  # train, validation or test, where the set has an official split
    problem: str | None = None  # why it can't be decoded

    @property
    def label(self) -> str:
        return self.labels[0]


class LabeledImages:
    """Readable images with their classes, in the order of their names. Item i is the decoded image."""

    def __init__(self, root: Path, records: list[LabeledImage], skipped: list[LabeledImage]) -> None:
        self.root = root
        self.records = records
        self.skipped = skipped
        self.class_names = sorted({label for record in records for label in record.labels})

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Image.Image:
        record = self.records[index]
        return open_image(io.BytesIO(_read(self.root / record.file, record.offset, record.size)), record.name)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The class of each image [N], as a number; for sets with one label per image."""
        number = {name: i for i, name in enumerate(self.class_names)}
        seen: set[str] = set()
        for record in self.records:
            if len(record.labels) > 1 or record.name in seen:
                raise UserError(f"{self.root}: '{record.name}' is listed more than once or with several labels.")
            seen.add(record.name)
        return np.array([number[record.label] for record in self.records], np.int64)

    @cached_property
    def sha256(self) -> str:
        """Checksum of names, classes and contents, wherever the folder is."""
        lines = "".join(f"{r.name}\0{'|'.join(r.labels)}\0{r.sha256}\n" for r in self.records)
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def image_links(images: Sequence[LabeledImage], max_bits: int) -> list[tuple[str, ...]]:
    """Names of what ties an image to others; images that share one belong together."""
    contents = content_groups([i.sha256 for i in images], [bytes.fromhex(i.hash) for i in images], max_bits)
    return [(f"content {content}", *image.links) for image, content in zip(images, contents.tolist(), strict=True)]


def image_groups(images: Sequence[LabeledImage], max_bits: int) -> NDArray[np.int64]:
    """A number for every image: near-duplicates, and images that share a patient or video, have the same."""
    return linked_groups(image_links(images, max_bits))


@dataclass(frozen=True)
class Keys:
    """Which keys of a shard's .json name the class and the patient or video."""

    label: str = "label"
    group: str = "group"


def read_labeled_images(source: Path, cache: Path | None = None, keys: Keys | None = None) -> LabeledImages:
    """Read a labeled set. Images that can't be decoded are counted, and left out into `skipped`."""
    root = source.parent if source.is_file() else source
    if not source.exists():
        raise UserError(f"no labeled images at {source}: it does not exist; name a folder with one folder per class.")
    memory = None
    if cache is not None:
        memory = cache / "scans" / f"{hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:32]}.json"
    with naming_path("read", source):
        if source.is_file():
            records = _read_items(root, read_table_of_files(source), memory)
        elif shards := sorted(source.glob("*.tar")):
            records = _read_shards(source, shards, keys or Keys(), memory)
        else:
            records = _read_items(source, class_folders(source), memory)
    readable = [record for record in records if record.problem is None]
    skipped = [record for record in records if record.problem is not None]
    if skipped:
        warn(
            f"{len(skipped)} of {len(records)} images at {source} can't be read and are left out; {skipped[0].problem}"
        )
    images = LabeledImages(root, readable, skipped)
    if not readable:
        raise UserError(f"no labeled images at {source}: none can be read; name a folder with one folder per class.")
    if len(images.class_names) == 1:
        raise UserError(
            f"{source} holds one class only ('{images.class_names[0]}'): there is nothing to tell apart; "
            "name a folder with one folder per class."
        )
    return images


def class_folders(root: Path) -> list[Item]:
    """The images of a folder with one folder per class."""
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not folders:
        raise UserError(f"no classes at {root}: it has no folders; name a folder with one folder of images per class.")
    names = [folder.name for folder in folders]
    if {name.lower() for name in names} <= _SPLIT_NAMES:
        raise UserError(
            f"{root} holds {', '.join(names)}, which are parts of a split and not classes; name one of them, such as "
            f"{root / names[0]}."
        )
    items: list[Item] = []
    for folder in folders:
        inside = sorted(
            path for path in folder.rglob("*") if is_image(path) and not path.name.startswith(".") and path.is_file()
        )
        if not inside:
            warn(f"the class '{folder.name}' at {folder} has no images and is left out.")
        items += [Item(path, (folder.name,)) for path in inside]
    _warn_of_deeper_classes(root, items)
    return items


def _warn_of_deeper_classes(root: Path, items: list[Item]) -> None:
    """Folders inside the classes that hold the images: labeled-images/lower-gi-tract/pathological-findings/polyps."""
    classes = {item.labels[0] for item in items}
    deeper = {(item.labels[0], item.path.parent.name) for item in items if item.path.parent.name != item.labels[0]}
    if items and len(deeper) >= 2 * len(classes) and {label for label, _ in deeper} == classes:
        some = ", ".join(sorted({name for _, name in deeper})[:3])
        warn(
            f"the classes at {root} are taken from its own folders ({', '.join(sorted(classes))}), but images lie "
            f"in folders inside them ({some}, …): if those are the classes, name the folder above them."
        )


def _read_items(root: Path, items: list[Item], memory: Path | None) -> list[LabeledImage]:
    sources = {_Source(item.path, (*item.labels, *item.links, item.split or "")): item for item in items}

    def read(source: _Source) -> list[LabeledImage]:
        path = source.path
        return [_record(root, path, _name(root, path), 0, path.stat().st_size, sources[source])]

    return _scan(root, list(sources), memory, read)


def _read_shards(root: Path, shards: list[Path], keys: Keys, memory: Path | None) -> list[LabeledImage]:
    # The keys are part of what is remembered: other keys give other labels.
    sources = [_Source(path, (keys.label, keys.group)) for path in shards]
    records = _scan(root, sources, memory, lambda source: list(_shard_records(root, source.path, keys)))
    name, count = Counter(record.name for record in records).most_common(1)[0] if records else ("", 0)
    if count > 1:
        raise UserError(f"{root}: the name '{name}' occurs {count} times; give every sample a name of its own.")
    return records


def _shard_records(root: Path, path: Path, keys: Keys) -> Iterator[LabeledImage]:
    for key, members in _samples_of_shard(path).items():
        image = next((member for ending, member in members.items() if ending in IMAGE_SUFFIXES), None)
        if image is None:
            continue
        details = _details(path, members[".json"]) if ".json" in members else {}
        label = details.get(keys.label)
        if ".cls" in members:
            content = _read(path, members[".cls"].offset_data, members[".cls"].size)
            label = content.decode(errors="backslashreplace").strip()
        if label is None:
            raise UserError(
                f"{path}: the sample '{key}' has no label (no .cls file, no '{keys.label}' in its .json); "
                "set data.label_key to the key that names its class."
            )
        group = details.get(keys.group)
        item = Item(path, (str(label),), None if group is None else str(group))
        name = f"{_name(root, path)}/{image.name}"
        yield _record(root, path, name, image.offset_data, image.size, item)


def _samples_of_shard(path: Path) -> dict[str, dict[str, tarfile.TarInfo]]:
    """The members of each sample by their ending."""
    samples: dict[str, dict[str, tarfile.TarInfo]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                folder, _, file = member.name.rpartition("/")
                key, _, ending = file.partition(".")
                samples.setdefault(f"{folder}/{key}" if folder else key, {})[f".{ending.lower()}"] = member
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UserError(f"cannot read the shard {path}: it is not a whole tar file; copy or make it again.") from error
    return samples


def _details(path: Path, member: tarfile.TarInfo) -> dict[str, Any]:
    try:
        details = json.loads(_read(path, member.offset_data, member.size))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {member.name} is not valid JSON; make the shard again.") from error
    if not isinstance(details, dict):
        raise UserError(f"{path}: {member.name} holds no names and values; write it as {{…}}.")
    return details


def _record(root: Path, path: Path, name: str, offset: int, size: int, item: Item) -> LabeledImage:
    content = _read(path, offset, size)
    hashed = ""
    problem = None
    try:
        hashed = field_of_view_hash(np.asarray(open_image(io.BytesIO(content), name))).tobytes().hex()
    except UnreadableImageError as error:
        problem = str(error)
    return LabeledImage(
        name=name,
        file=_name(root, path),
        offset=offset,
        size=size,
        labels=item.labels,
        sha256=hashlib.sha256(content).hexdigest(),
        hash=hashed,
        links=item.links,
        split=item.split or "",
        problem=problem,
    )


def _name(root: Path, path: Path) -> str:
    """Relative to the set, where it lies inside; a CSV may list files elsewhere."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _read(path: Path, offset: int, size: int) -> bytes:
    with naming_path("read", path), path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


@dataclass(frozen=True)
class _Source:
    """A file to read, with all that decides what its records say beside its content."""

    path: Path
    description: tuple[str, ...]

    def key(self, root: Path) -> str:
        return "|".join([_name(root, self.path), *self.description])

    def stamp(self) -> list[int]:
        status = self.path.stat()
        return [status.st_size, status.st_mtime_ns]


@dataclass(frozen=True)
class _ScannedFile:
    """What was found in a file while it had this size and time of change."""

    stamp: list[int]
    records: list[LabeledImage]


@dataclass(frozen=True)
class _Scan:
    """The remembered files of a labeled set."""

    files: dict[str, _ScannedFile] = field(default_factory=dict)
    format: int = _FORMAT


def _scan(
    root: Path, sources: list[_Source], memory: Path | None, read: Callable[[_Source], list[LabeledImage]]
) -> list[LabeledImage]:
    """Records of all files; only those that are new or changed since the last time are read."""
    known = _remembered(memory)
    stamps = {source: source.stamp() for source in sources}
    found: dict[str, _ScannedFile] = {}
    changed = []
    for source in sources:
        earlier = known.get(source.key(root))
        if earlier is not None and earlier.stamp == stamps[source]:
            found[source.key(root)] = earlier
        else:
            changed.append(source)
    if changed:
        with ThreadPoolExecutor() as pool, progress(f"reading {root}", len(changed), "files") as bar:
            for source, records in zip(changed, pool.map(read, changed), strict=True):
                found[source.key(root)] = _ScannedFile(stamps[source], records)
                bar.advance()
    if memory is not None and (changed or len(known) != len(found)):
        write_document(memory, _Scan(found))
    everything = [record for file in found.values() for record in file.records]
    return sorted(everything, key=lambda record: record.name)


def _remembered(memory: Path | None) -> dict[str, _ScannedFile]:
    if memory is None or not memory.is_file():
        return {}
    try:
        scan = read_document(_Scan, memory, "what was found in a labeled set")
    except UserError:  # damaged or of another version: the files are read again
        return {}
    return scan.files if scan.format == _FORMAT else {}
