"""Gallery and queries of a labeled set: decided once, stored, and used for every checkpoint.

Near-duplicates form a group, and a group never stands on both sides. Classes keep their shares. The choice depends on
the images' content and the seed, not on file dates, folders or the order of a listing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.config import GallerySplitConfig
from panendofm.atlas.labeled.images import LabeledImages, image_groups
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import printable

Integers = NDArray[np.int64]

_FORMAT = 1
# How near-duplicates are found; splits that are kept in the cache folder are of one way.
_GROUPING = "field of view"


@dataclass(frozen=True)
class GallerySplit:
    """Rows of the labeled set on each side [G], [Q], the group of every image [N], and the file's checksum."""

    gallery: Integers
    queries: Integers
    groups: Integers
    leave_one_group_out: bool
    sha256: str
    path: Path | None = None


@dataclass(frozen=True)
class SplitSettings:
    gallery_fraction: float
    near_duplicate_bits: int
    seed: int


@dataclass(frozen=True)
class SplitEntry:
    """Where an image stands."""

    group: int
    side: Literal["gallery", "query"]
    label: str = ""


@dataclass(frozen=True)
class SplitFile:
    data_sha256: str
    settings: SplitSettings
    images: dict[str, SplitEntry]  # by printable name: JSON can't hold bytes that are no UTF-8
    format: int = _FORMAT


def load_or_make_gallery_split(images: LabeledImages, config: GallerySplitConfig, cache: Path) -> GallerySplit:
    """The stored split of these images, made now when there is none."""
    settings = SplitSettings(config.gallery_fraction, config.near_duplicate_bits, config.seed)
    path = Path(config.file) if config.file is not None else cache / "splits" / f"{_digest(images, settings)}.json"
    if not path.is_file():
        write_document(path, make_gallery_split(images, settings))
        say(f"split: made {path}")
    split = _from_file(images, path, settings, config.leave_one_group_out)
    split = _leave_out_unanswerable_queries(split, images)
    _announce(split, images)
    return split


def make_gallery_split(images: LabeledImages, settings: SplitSettings) -> SplitFile:
    groups = image_groups(images.records, settings.near_duplicate_bits)
    in_gallery = _choose_gallery(images, groups, settings)
    entries = {}
    for i, record in enumerate(images.records):
        side: Literal["gallery", "query"] = "gallery" if in_gallery[i] else "query"
        entries[printable(record.name)] = SplitEntry(int(groups[i]), side, printable(record.label))
    return SplitFile(images.sha256, settings, entries)


def _choose_gallery(images: LabeledImages, groups: Integers, settings: SplitSettings) -> NDArray[np.bool_]:
    """Go through the groups, largest first, and put each where the classes' shares stay nearest to what is wanted."""
    members = [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]
    draw = [min(_keyed(settings.seed, images.records[i].sha256) for i in rows) for rows in members]
    classes = len(images.class_names)
    in_gallery = np.zeros(len(images), bool)
    gallery = np.zeros(classes)
    seen = np.zeros(classes)
    for group in sorted(range(len(members)), key=lambda g: (-len(members[g]), draw[g])):
        counts = np.bincount(images.labels[members[group]], minlength=classes)
        seen += counts
        error_in = ((gallery + counts - settings.gallery_fraction * seen) ** 2).sum()
        error_out = ((gallery - settings.gallery_fraction * seen) ** 2).sum()
        # Of two equally good sides the group's own random number picks one.
        if error_in < error_out or (error_in == error_out and int(draw[group][-1], 16) % 2 == 0):
            gallery += counts
            in_gallery[members[group]] = True
    return in_gallery


def _keyed(seed: int, sha256: str) -> str:
    return hashlib.sha256(f"{seed}:{sha256}".encode()).hexdigest()


def _digest(images: LabeledImages, settings: SplitSettings) -> str:
    key = (_GROUPING, images.sha256, settings.gallery_fraction, settings.near_duplicate_bits, settings.seed)
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]


def _from_file(images: LabeledImages, path: Path, wanted: SplitSettings, leave_one_group_out: bool) -> GallerySplit:
    stored = read_document(SplitFile, path, "a split file", "remove it, or set split.file to another name")
    names = [printable(record.name) for record in images.records]
    missing = [name for name in names if name not in stored.images]
    gone = sorted(set(stored.images) - set(names))
    if missing or gone or stored.data_sha256 != images.sha256:
        detail = (
            f"'{missing[0]}' is not in it" if missing else f"'{gone[0]}' is gone" if gone else "an image has changed"
        )
        raise UserError(
            f"the split file {path} was made for other images than those at {images.root} ({detail}); restore the "
            "images, or set split.file to a new name (metrics of different splits can't be compared)."
        )
    if stored.settings != wanted:
        warn(f"the split file {path} was made with other settings than the config's; the file decides.")
    entries = [stored.images[name] for name in names]
    groups = np.array([entry.group for entry in entries], np.int64)
    in_gallery = np.array([entry.side == "gallery" for entry in entries])
    everything = np.arange(len(images))
    sides = None if leave_one_group_out else in_gallery.tolist()
    text = json.dumps([stored.data_sha256, groups.tolist(), sides])
    return GallerySplit(
        gallery=everything if leave_one_group_out else np.flatnonzero(in_gallery),
        queries=everything if leave_one_group_out else np.flatnonzero(~in_gallery),
        groups=groups,
        leave_one_group_out=leave_one_group_out,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        path=path,
    )


def _leave_out_unanswerable_queries(split: GallerySplit, images: LabeledImages) -> GallerySplit:
    """A query without any gallery image of its class can't be answered rightly: its class is not evaluated."""
    available = np.bincount(images.labels[split.gallery], minlength=len(images.class_names))[images.labels]  # [N]
    if split.leave_one_group_out:
        pairs = images.labels * (split.groups.max() + 1) + split.groups  # class and group in one number
        _, number, size = np.unique(pairs, return_inverse=True, return_counts=True)
        available = available - size[number]
    queries = split.queries[available[split.queries] > 0]
    evaluable = np.unique(images.labels[queries])
    if len(evaluable) < len(images.class_names):
        names = [name for i, name in enumerate(images.class_names) if i not in evaluable]
        warn(
            f"{len(names)} classes can't be evaluated ({', '.join(names[:5])}): all their images are one group of "
            "near-duplicates, or there is only one."
        )
    return replace(split, queries=queries)


def _announce(split: GallerySplit, images: LabeledImages) -> None:
    if len(split.queries) == 0:
        raise UserError(
            f"{images.root}: no class has images in two near-duplicate groups, so there is nothing to split; add "
            "images, or lower split.near_duplicate_bits."
        )
    sizes = np.bincount(split.groups)
    how = " (leave one group out)" if split.leave_one_group_out else ""
    say(
        f"split: {len(split.gallery)} gallery and {len(split.queries)} query images{how} of {len(images.class_names)} "
        f"classes, {len(sizes)} groups of near-duplicates (largest {sizes.max()}), {split.path}"
    )
