"""A labelled set of images: one folder per class (Kvasir's layout), or WebDataset shards with labels.

Looking through a set reads every file once: its checksum, its perceptual hash, whether it can be decoded. What was
found is remembered in the cache folder by size and time of change, so that later runs only list the files.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eval_knn.config import DataConfig
from panendofm.imaging.frame_filters.clean import field_of_view_hash
from panendofm.imaging.images import IMAGE_SUFFIXES, UnreadableImageError, is_image, open_image
from panendofm.runtime.console import progress, warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_json, write_json

# Change it when records of the same files would be different from before.
_FORMAT = 2
_SPLIT_NAMES = {"train", "training", "val", "valid", "validation", "test", "testing", "dev", "holdout"}


@dataclass(frozen=True)
class ImageRecord:
    """One image: where its bytes are and what was found in them."""

    name: str  # path below the root; in a shard, followed by the member's name
    file: str  # path below the root
    offset: int
    size: int
    label: str
    sha256: str
    hash: str  # perceptual hash of the field of view in hexadecimal; empty when the image can't be decoded
    group: str | None = None
    problem: str | None = None


class LabelledImages:
    """Readable images with their classes, in the order of their names. Item i is the decoded picture."""

    def __init__(self, root: Path, records: list[ImageRecord], skipped: list[ImageRecord]) -> None:
        self.root, self.records, self.skipped = root, records, skipped
        self.class_names = sorted({record.label for record in records})
        number = {name: i for i, name in enumerate(self.class_names)}
        self.labels: NDArray[np.int64] = np.array([number[record.label] for record in records], np.int64)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Image.Image:
        record = self.records[index]
        return open_image(io.BytesIO(_read(self.root / record.file, record.offset, record.size)), record.name)

    @cached_property
    def sha256(self) -> str:
        """Checksum of names, classes and contents, wherever the folder is."""
        lines = "".join(f"{r.name}\0{r.label}\0{r.sha256}\n" for r in self.records)
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def find_images(config: DataConfig, cache: Path) -> LabelledImages:
    """Look through a labelled set. Images that can't be read are counted and left out."""
    root = Path(config.path)
    if not root.is_dir():
        raise UserError(
            f"no labelled images at {root}: it is not a folder; set data.path to a folder with one folder per class."
        )
    memory = cache / "scans" / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:32]}.json"
    with naming_path("read", root):
        shards = sorted(root.glob("*.tar"))
        records = _scan_shards(root, shards, config, memory) if shards else _scan_folders(root, memory)
    good = [record for record in records if record.problem is None]
    skipped = [record for record in records if record.problem is not None]
    if skipped:
        warn(
            f"{len(skipped)} of {len(records)} images below {root} can't be read and are left out; {skipped[0].problem}"
        )
    images = LabelledImages(root, good, skipped)
    _check_classes(images)
    return images


def _check_classes(images: LabelledImages) -> None:
    if not images.records:
        raise UserError(
            f"no labelled images at {images.root}: none of its folders holds a readable image; set data.path to a "
            "folder with one folder per class."
        )
    if len(images.class_names) == 1:
        raise UserError(
            f"{images.root} holds one class only ('{images.class_names[0]}'): there is nothing to tell apart; "
            "set data.path to a folder with one folder per class."
        )


def _scan_folders(root: Path, memory: Path) -> list[ImageRecord]:
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not folders:
        raise UserError(
            f"no classes at {root}: it has no folders; set data.path to a folder with one folder of images per class."
        )
    _refuse_splits(root, [folder.name for folder in folders])
    files: list[tuple[Path, str]] = []
    for folder in folders:
        inside = sorted(
            path for path in folder.rglob("*") if is_image(path) and not path.name.startswith(".") and path.is_file()
        )
        if not inside:
            warn(f"the class '{folder.name}' at {folder} has no images and is left out.")
        files += [(path, folder.name) for path in inside]
    _warn_of_deeper_classes(root, files)

    def read_records(path: Path, label: str) -> list[ImageRecord]:
        return [_record(root, path, path.relative_to(root).as_posix(), 0, path.stat().st_size, label, None)]

    return _scan(root, files, memory, read_records)


def _refuse_splits(root: Path, names: list[str]) -> None:
    if {name.lower() for name in names} <= _SPLIT_NAMES:
        raise UserError(
            f"{root} holds {', '.join(names)}, which are parts of a split and not classes; set data.path to one of "
            f"them, such as {root / names[0]}."
        )


def _warn_of_deeper_classes(root: Path, files: list[tuple[Path, str]]) -> None:
    """Folders inside the classes that hold the pictures: labeled-images/lower-gi-tract/pathological-findings/polyps."""
    deeper = {(label, path.parent.name) for path, label in files if path.parent.name != label}
    labels = {label for label, _ in deeper}
    if files and len(deeper) >= 2 * len(labels) and labels == {label for _, label in files}:
        some = ", ".join(sorted({name for _, name in deeper})[:3])
        warn(
            f"the classes at {root} are taken from its own folders ({', '.join(sorted(labels))}), but pictures lie "
            f"in folders inside them ({some}, …): if those are the classes, set data.path to the folder above them."
        )


def _scan_shards(root: Path, shards: list[Path], config: DataConfig, memory: Path) -> list[ImageRecord]:
    def read_records(path: Path, _: str) -> list[ImageRecord]:
        return list(_shard_records(root, path, config))

    # The keys are part of what is remembered: other keys give other labels.
    return _scan(root, [(path, f"{config.label_key}/{config.group_key}") for path in shards], memory, read_records)


def _shard_records(root: Path, path: Path, config: DataConfig) -> Iterator[ImageRecord]:
    samples: dict[str, dict[str, tarfile.TarInfo]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                key, _, ending = member.name.rpartition("/")[2].partition(".")
                folder = member.name.rpartition("/")[0]
                samples.setdefault(f"{folder}/{key}" if folder else key, {})[f".{ending.lower()}"] = member
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UserError(f"cannot read the shard {path}: it is not a whole tar file; copy or make it again.") from error
    for key, members in samples.items():
        image = next((member for ending, member in members.items() if ending in IMAGE_SUFFIXES), None)
        if image is None:
            continue
        details: dict[str, Any] = {}
        if ".json" in members:
            text = _read(path, members[".json"].offset_data, members[".json"].size)
            try:
                details = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise UserError(f"{path}: {members['.json'].name} is not valid JSON; make the shard again.") from error
            if not isinstance(details, dict):
                raise UserError(f"{path}: {members['.json'].name} holds no names and values; write it as {{…}}.")
        label = details.get(config.label_key)
        if ".cls" in members:
            content = _read(path, members[".cls"].offset_data, members[".cls"].size)
            label = content.decode(errors="backslashreplace").strip()
        if label is None:
            raise UserError(
                f"{path}: the sample '{key}' has no label (no .cls file, no '{config.label_key}' in its .json); "
                "set data.label_key to the key that names its class."
            )
        group = details.get(config.group_key)
        name = f"{path.relative_to(root).as_posix()}/{image.name}"
        yield _record(
            root, path, name, image.offset_data, image.size, str(label), None if group is None else str(group)
        )


def _record(root: Path, path: Path, name: str, offset: int, size: int, label: str, group: str | None) -> ImageRecord:
    content = _read(path, offset, size)
    hashed, problem = "", None
    try:
        hashed = field_of_view_hash(np.asarray(open_image(io.BytesIO(content), name))).tobytes().hex()
    except UnreadableImageError as error:
        problem = str(error)
    file = path.relative_to(root).as_posix()
    return ImageRecord(name, file, offset, size, label, hashlib.sha256(content).hexdigest(), hashed, group, problem)


def _read(path: Path, offset: int, size: int) -> bytes:
    with naming_path("read", path), path.open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def _scan(root: Path, files: list[tuple[Path, str]], memory: Path, read_records: Any) -> list[ImageRecord]:
    """Records of all files; only those that are new or changed since the last time are read."""
    known = read_json(memory) if memory.is_file() else {}
    known = known.get("files", {}) if known.get("format") == _FORMAT else {}
    stamps: dict[str, list[Any]] = {}
    for path, label in files:
        status = path.stat()
        stamps[path.relative_to(root).as_posix()] = [status.st_size, status.st_mtime_ns, label]
    todo = [
        (path, label)
        for path, label in files
        if known.get(key := path.relative_to(root).as_posix(), {}).get("stamp") != stamps[key]
    ]
    if todo:
        with ThreadPoolExecutor() as pool, progress(f"reading {root}", len(todo), "files") as bar:
            for (path, _), records in zip(todo, pool.map(lambda item: read_records(*item), todo), strict=True):
                key = path.relative_to(root).as_posix()
                known[key] = {"stamp": stamps[key], "records": [asdict(record) for record in records]}
                bar.advance()
    if todo or len(known) != len(files):
        known = {key: known[key] for key in stamps}
        write_json(memory, {"format": _FORMAT, "root": str(root.resolve()), "files": known})
    records = [ImageRecord(**values) for key in stamps for values in known[key]["records"]]
    _refuse_repeated_names(root, records)
    return sorted(records, key=lambda record: record.name)


def _refuse_repeated_names(root: Path, records: list[ImageRecord]) -> None:
    name, count = Counter(record.name for record in records).most_common(1)[0] if records else ("", 0)
    if count > 1:
        raise UserError(f"{root}: the name '{name}' occurs {count} times; give every sample a name of its own.")
