"""Which images are the gallery and which are the queries: decided once, stored, and used for every checkpoint.

Near-identical frames of one procedure form a group, and a group never stands on both sides. Classes keep their shares.
The choice depends on the images' content and the seed, not on file dates, folders or the order of a listing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_knn.config import SplitConfig
from eval_knn.data.labeled_images import LabelledImages
from eval_knn.search.block_search import Exclusions
from panendofm.imaging.groups import linked_groups, near_duplicate_groups
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json, write_json

Integers = NDArray[np.int64]

_FORMAT = 1
# How near-duplicates are found; splits that are kept in the cache folder are of one way.
_GROUPING = "field of view"


@dataclass(frozen=True)
class Split:
    """Rows of the labelled set on each side [G], [Q], the group of every image [N], and the file's checksum."""

    gallery: Integers
    queries: Integers
    groups: Integers
    leave_one_group_out: bool
    sha256: str
    path: Path | None = None

    def exclusions(self) -> Exclusions | None:
        """Pairs (query, gallery) of one group, numbered within their sides; None when the sides share no group."""
        if not self.leave_one_group_out:
            return None
        members: dict[int, list[int]] = {}
        for row, group in enumerate(self.groups[self.gallery].tolist()):
            members.setdefault(group, []).append(row)
        pairs = [(q, g) for q, group in enumerate(self.groups[self.queries].tolist()) for g in members.get(group, [])]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return Exclusions(both[:, 0].copy(), both[:, 1].copy())


def load_or_make_split(images: LabelledImages, config: SplitConfig, cache: Path) -> Split:
    """The stored split of these images, made now when there is none."""
    path = Path(config.file) if config.file is not None else cache / "splits" / f"{_digest(images, config)}.json"
    if not path.is_file():
        write_json(path, make_split(images, config))
        say(f"split: made {path}")
    content = read_json(path)
    split = _leave_out_unanswerable_queries(_from_file(content, images, path, config), images)
    _announce(split, images)
    return split


def make_split(images: LabelledImages, config: SplitConfig) -> dict[str, Any]:
    """The content of a split file."""
    groups = image_groups(images, config.near_duplicate_bits)
    in_gallery = _choose_gallery(images, groups, config)
    return {
        "format": _FORMAT,
        "data_sha256": images.sha256,
        "classes": images.class_names,
        "settings": {key: value for key, value in asdict(config).items() if key not in ("file", "leave_one_group_out")},
        "images": {
            record.name: {
                "class": record.label,
                "group": int(groups[i]),
                "side": "gallery" if in_gallery[i] else "query",
            }
            for i, record in enumerate(images.records)
        },
    }


def image_groups(images: LabelledImages, max_bits: int) -> Integers:
    """Group number of every image: near-identical pictures, and those of one named patient or video, are together."""
    hashes = np.stack([np.frombuffer(bytes.fromhex(record.hash), np.uint8) for record in images.records])
    groups = near_duplicate_groups(hashes, max_bits)
    return linked_groups(
        [
            [("content", group)] + ([("named", record.group)] if record.group is not None else [])
            for record, group in zip(images.records, groups.tolist(), strict=True)
        ]
    )


def _choose_gallery(images: LabelledImages, groups: Integers, config: SplitConfig) -> NDArray[np.bool_]:
    """Go through the groups, largest first, and put each where the classes' shares stay nearest to what is wanted."""
    members = [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]
    draw = [min(_keyed(config.seed, images.records[i].sha256) for i in rows) for rows in members]
    classes = len(images.class_names)
    in_gallery = np.zeros(len(images), bool)
    gallery, seen = np.zeros(classes), np.zeros(classes)
    for group in sorted(range(len(members)), key=lambda g: (-len(members[g]), draw[g])):
        counts = np.bincount(images.labels[members[group]], minlength=classes)
        seen += counts
        error_in = ((gallery + counts - config.gallery_fraction * seen) ** 2).sum()
        error_out = ((gallery - config.gallery_fraction * seen) ** 2).sum()
        # Of two equally good sides the group's own random number picks one.
        if error_in < error_out or (error_in == error_out and int(draw[group][-1], 16) % 2 == 0):
            gallery += counts
            in_gallery[members[group]] = True
    return in_gallery


def _keyed(seed: int, sha256: str) -> str:
    return hashlib.sha256(f"{seed}:{sha256}".encode()).hexdigest()


def _digest(images: LabelledImages, config: SplitConfig) -> str:
    settings = (_GROUPING, images.sha256, config.gallery_fraction, config.near_duplicate_bits, config.seed)
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:32]


def _from_file(content: Any, images: LabelledImages, path: Path, config: SplitConfig) -> Split:
    if not isinstance(content, dict) or content.get("format") != _FORMAT or "images" not in content:
        raise UserError(f"{path} is not a split file of this version; remove it, or set split.file to another name.")
    stored = content["images"]
    missing = [record.name for record in images.records if record.name not in stored]
    gone = sorted(set(stored) - {record.name for record in images.records})
    if missing or gone or content["data_sha256"] != images.sha256:
        detail = (
            f"'{missing[0]}' is not in it" if missing else f"'{gone[0]}' is gone" if gone else "an image has changed"
        )
        raise UserError(
            f"the split file {path} was made for other images than those at {images.root} ({detail}); restore the "
            "images, or set split.file to a new name (figures of different splits can't be compared)."
        )
    wanted = {key: value for key, value in asdict(config).items() if key in content["settings"]}
    if wanted != content["settings"]:
        warn(f"the split file {path} was made with other settings than the config's; the file decides.")
    entries = [stored[record.name] for record in images.records]
    groups = np.array([entry["group"] for entry in entries], np.int64)
    sides = np.array([entry["side"] == "gallery" for entry in entries])
    everything = np.arange(len(images))
    whole = config.leave_one_group_out
    text = json.dumps([content["data_sha256"], groups.tolist(), None if whole else sides.tolist()])
    return Split(
        gallery=everything if whole else np.flatnonzero(sides),
        queries=everything if whole else np.flatnonzero(~sides),
        groups=groups,
        leave_one_group_out=whole,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        path=path,
    )


def _leave_out_unanswerable_queries(split: Split, images: LabelledImages) -> Split:
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
            "near-identical images, or there is only one."
        )
    return replace(split, queries=queries)


def _announce(split: Split, images: LabelledImages) -> None:
    if len(split.queries) == 0:
        raise UserError(
            f"{images.root}: no class has images in two near-duplicate groups, so there is nothing to split; add "
            "images, or lower split.near_duplicate_bits."
        )
    sizes = np.bincount(split.groups)
    how = " (leave one group out)" if split.leave_one_group_out else ""
    say(
        f"split: {len(split.gallery)} gallery and {len(split.queries)} query images{how} of {len(images.class_names)} "
        f"classes, {len(sizes)} groups of near-identical images (largest {sizes.max()}), {split.path}"
    )
