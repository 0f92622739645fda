"""Find the datasets below the given folders and list their images with the dataset's own labels and ids."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.atlas.datasets.codes import find_codes, with_codes
from panendofm.atlas.datasets.hints import archives_hint, folders_around, holds_images, right_folder
from panendofm.atlas.datasets.mapping import Mapping
from panendofm.atlas.datasets.readers import READERS, Item, Match
from panendofm.imaging.images import is_image
from panendofm.runtime.csv_files import read_csv, unescaped
from panendofm.runtime.errors import UserError, naming_path

# How far below a given folder a dataset's own folder is looked for.
_MAX_DEPTH = 3


@dataclass(frozen=True)
class Found:
    """A dataset on disk. `source` is its folder, or a table (CSV) that lists its images."""

    mapping: Mapping
    source: Path


OFFICIAL_SPLITS = ("train", "validation", "test")


def find_datasets(
    roots: list[str], mappings: dict[str, Mapping], codes: MappingOf[str, str] | None = None
) -> list[Found]:
    """The datasets that the words name: a folder (searched by signature), or `dataset:PATH` for a folder or CSV.

    `codes` are tables of the user's by dataset; those beside a dataset are found.
    """
    given = codes or {}
    unknown = next((name for name in given if name not in mappings), None)
    if unknown is not None:
        raise UserError(f"codes.{unknown}: there is no such dataset; there are: {', '.join(mappings)}.")
    return [
        replace(found, mapping=with_codes(found.mapping, find_codes(found.mapping, found.source, given)))
        for found in _found(roots, mappings)
    ]


def _found(roots: list[str], mappings: dict[str, Mapping]) -> list[Found]:
    found: list[Found] = []
    for word in roots:
        name, separator, rest = word.partition(":")
        if separator and name in mappings:
            found.append(_named(mappings[name], Path(rest)))
            continue
        root = Path(word)
        if not root.is_dir():
            raise UserError(f"cannot read {word}: it is not a folder; check the path, or write DATASET:PATH.")
        here = list(_search(root, mappings, _MAX_DEPTH))
        if not here:
            hint = _hint_where_nothing_is_known(root, mappings)
            raise UserError(
                f"{word}: no dataset of the atlas was recognized there; {hint}write DATASET:{word}, "
                f"with one of {', '.join(mappings)}."
            )
        found += here
    return sorted({(f.mapping.dataset, f.source.resolve()): f for f in found}.values(), key=_order)


def _hint_where_nothing_is_known(root: Path, mappings: dict[str, Mapping]) -> str:
    for folder in folders_around(root):
        known = next((m.dataset for m in mappings.values() if _has_signature(folder, m)), None)
        if known is not None:
            return f"{folder} looks like {known}, name that folder; or "
    packed = archives_hint(root)
    return "" if packed is None else f"{packed}; or "


def why_no_images(found: Found) -> str:
    """Why a dataset gave no image, and what to do about it."""
    mapping, folder = found.mapping, found.source
    if folder.is_file():
        return "its table lists none"

    def fits(root: Path, relative: str) -> bool:
        return root != folder.absolute() and any(rule.files.fullmatch(relative) for rule in mapping.rules)

    matches, _ = _match_rules(found)
    if matches:
        return f"none of its {len(matches)} images has a label: check the files that give them"
    packed = archives_hint(folder)
    if packed is not None and not holds_images(folder):
        return packed
    right = right_folder(folder, fits)
    if right is not None:
        return f"its images lie as they should below {right}: name that folder"
    if packed is not None:
        return packed
    if not holds_images(folder):
        return "there are no image files below it: check the download"
    return "its images do not lie where those of this dataset do: check the download"


def _order(found: Found) -> tuple[str, str]:
    return found.mapping.dataset, str(found.source)


def _named(mapping: Mapping, source: Path) -> Found:
    if not source.exists():
        raise UserError(f"cannot read {source} as {mapping.dataset}: it does not exist; check the path.")
    if source.is_dir() and not mapping.rules:
        raise UserError(f"{mapping.dataset}: the layout of its folder is not known; {mapping.notes.rstrip('.')}.")
    return Found(mapping, source)


def _search(folder: Path, mappings: dict[str, Mapping], depth: int) -> Iterator[Found]:
    fitting = [mapping for mapping in mappings.values() if _has_signature(folder, mapping)]
    # A dataset that holds another's class folders and more is that one alone.
    here = [m for m in fitting if not any(set(m.contains) < set(other.contains) for other in fitting)]
    if here:
        yield from (Found(mapping, folder) for mapping in here)
    elif depth:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _search(child, mappings, depth - 1)


def _has_signature(folder: Path, mapping: Mapping) -> bool:
    if not mapping.folder and not mapping.contains:
        return False
    if mapping.folder and not mapping.folder.fullmatch(folder.resolve().name):
        return False
    return all(next(iter(folder.glob(pattern)), None) is not None for pattern in mapping.contains)


def read_items(found: Found) -> tuple[list[Item], int]:
    """All images of a dataset that have a label, and how many images have none."""
    if found.source.is_file():
        return [_with_own_code(item, found.mapping) for item in read_table_of_files(found.source)], 0
    matches, unmatched = _match_rules(found)
    items = READERS[found.mapping.reader](matches, found.mapping, found.source)
    items = [_with_own_code(item, found.mapping) for item in items]
    labeled = [item for item in items if item.labels]
    return labeled, unmatched + len(items) - len(labeled)


def _with_own_code(item: Item, mapping: Mapping) -> Item:
    """Where a table says more of a patient's finding than the folders, its code is the label."""
    of_patient = mapping.codes is not None and mapping.codes.of == "patient"
    return replace(item, labels=(item.patient,)) if of_patient and item.patient in mapping.labels else item


def count_codes(items: list[Item], mapping: Mapping) -> Counter[str]:
    """Images of every code that a table of the user's may explain."""
    if mapping.codes is not None and mapping.codes.of == "patient":
        # Patients of other rules, such as negative cases, carry a prefix and are explained.
        prefixes = tuple(rule.prefix for rule in mapping.rules if rule.prefix)
        return Counter(i.patient for i in items if i.patient and not (prefixes and i.patient.startswith(prefixes)))
    return Counter(label for item in items for label in item.labels)


def _match_rules(found: Found) -> tuple[list[Match], int]:
    matches, unmatched = [], 0
    for folder, subfolders, files in os.walk(found.source):
        subfolders.sort()
        for file in sorted(files):
            if not is_image(file):
                continue
            path = Path(folder) / file
            # Endings may be written in capitals.
            relative = path.relative_to(found.source).with_suffix(path.suffix.lower()).as_posix()
            match = _match(path, relative, found.mapping)
            if match is None:
                unmatched += 1
            else:
                matches.append(match)
    return matches, unmatched


def _match(path: Path, relative: str, mapping: Mapping) -> Match | None:
    for rule in mapping.rules:
        match = rule.files.fullmatch(relative)
        if match is None:
            continue
        parts = match.groupdict()
        label = rule.label or parts.get("label")
        patient, video = parts.get("patient"), parts.get("video")
        if patient and parts.get("sequence"):
            video = f"{patient}/{parts['sequence']}"
        item = Item(
            path,
            (label,) if label else (),
            rule.prefix + patient if patient else None,
            rule.prefix + video if video else None,
            center=parts.get("center") or parts.get("centre"),  # the second in mappings of users,
        )
        return Match(item, relative, parts.get("name") or path.name)
    return None


def read_table_of_files(path: Path) -> list[Item]:
    """A CSV file,label[,patient,video,split]; files are relative to it, several labels of an image are parted by |."""
    items = []
    for number, row in enumerate(read_csv(path, ("file", "label")), start=2):
        file = path.parent / unescaped(row["file"] or "")  # None where a line is too short
        with naming_path(f"read {path}, line {number}:", file):
            there = file.is_file()
        if not there:
            raise UserError(f"{path}, line {number}: the file {file} does not exist; correct or remove the line.")
        labels = tuple(label.strip() for label in (row["label"] or "").split("|") if label.strip())
        if not labels:
            raise UserError(f"{path}, line {number}: the label is empty; write one or remove the line.")
        split = (row.get("split") or "").strip() or None
        if split is not None and split not in OFFICIAL_SPLITS:
            raise UserError(f"{path}, line {number}: the split is '{split}'; write train, validation or test.")
        items.append(Item(file, labels, row.get("patient") or None, row.get("video") or None, split))
    missing = next((n for n, item in enumerate(items, start=2) if item.split is None), None)
    if missing is not None and any(item.split for item in items):
        raise UserError(f"{path}, line {missing}: the split is empty; fill it in every line or leave the column out.")
    return items
