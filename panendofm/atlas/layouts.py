"""Find the datasets below the given folders and list their images with the dataset's own labels and ids."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.atlas.hints import archives_hint, folders_around, holds_images, right_folder
from panendofm.atlas.mapping import Mapping
from panendofm.imaging.images import is_image
from panendofm.runtime.csv_files import read_csv, unescaped
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_text

# How far below a given folder a dataset's own folder is looked for.
_MAX_DEPTH = 3


@dataclass(frozen=True)
class Found:
    """A dataset on disk. `source` is its folder, or a table (CSV) that lists its images."""

    mapping: Mapping
    source: Path


OFFICIAL_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Item:
    """An image as its dataset describes it."""

    path: Path
    labels: tuple[str, ...]
    patient: str | None = None
    video: str | None = None
    split: str | None = None  # train, validation or test, where the dataset has an official split
    center: str | None = None

    @property
    def links(self) -> tuple[str, ...]:
        """Names of its patient and video."""
        named = (("patient", self.patient), ("video", self.video))
        return tuple(f"{kind} {name}" for kind, name in named if name)


def find_datasets(roots: list[str], mappings: dict[str, Mapping]) -> list[Found]:
    """The datasets that the words name: a folder (searched by signature), or `dataset:PATH` for a folder or CSV."""
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


@dataclass(frozen=True)
class Match:
    """A file that one of the mapping's rules takes for an image."""

    item: Item  # labels as far as the path tells
    relative: str
    name: str  # the file's name as the dataset's tables write it


def read_items(found: Found) -> tuple[list[Item], int]:
    """All images of a dataset that have a label, and how many images have none."""
    if found.source.is_file():
        return read_table_of_files(found.source), 0
    matches, unmatched = _match_rules(found)
    items = READERS[found.mapping.reader](matches, found.mapping, found.source)
    labeled = [item for item in items if item.labels]
    return labeled, unmatched + len(items) - len(labeled)


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


def _by_path(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    return [match.item for match in matches]


def _by_table(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """A CSV with a column of file names and one of labels."""
    path = folder / mapping.settings["file"]
    labels: dict[str, list[str]] = defaultdict(list)
    for row in read_csv(path, (mapping.settings["image"], mapping.settings["label"])):
        name = Path(row[mapping.settings["image"]]).stem
        labels[name] += [part.strip() for part in re.split(r"[;|,]", row[mapping.settings["label"]]) if part.strip()]
    return [replace(m.item, labels=tuple(labels.get(m.item.path.stem, ()))) for m in matches]


def _by_mask_names(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """masks/NAME_CLASS.tif: an image's labels are the classes of its masks."""
    labels: dict[str, set[str]] = defaultdict(set)
    for mask in (folder / "masks").iterdir():
        name, _, label = mask.stem.rpartition("_")
        labels[name].add(label)
    return [replace(m.item, labels=tuple(sorted(labels.get(m.name, ())))) for m in matches]


def _by_voc_boxes(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """Annotation/….xml beside Image/….jpg: the names of the objects in it."""
    items = []
    for match in matches:
        file = folder / Path(match.relative.replace("/Image/", "/Annotation/", 1)).with_suffix(".xml")
        if file.is_file():
            try:
                names = {(node.text or "").strip() for node in ElementTree.parse(file).iterfind("object/name")}
            except ElementTree.ParseError as error:
                raise UserError(f"cannot read {file}: it is not valid XML ({error}).") from error
            items.append(replace(match.item, labels=tuple(sorted(names - {""}))))
        else:
            items.append(match.item)
    return items


def _by_yolo_boxes(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """NAME.txt with class numbers, beside the image or in labels/; classes.txt names them. No boxes: normal."""
    names_file = folder / "classes.txt"
    if not names_file.is_file():
        raise UserError(
            f"{mapping.dataset}: {names_file} is missing; write the names of its class numbers there, one a line."
        )
    names = read_text(names_file).split("\n")
    items = []
    for match in matches:
        image = match.item.path
        places = (image.with_suffix(".txt"), image.parent.parent / "labels" / f"{image.stem}.txt")
        boxes = next((place for place in places if place.is_file()), None)
        labels = set()
        for line in read_text(boxes).split("\n") if boxes else []:
            if line.strip():
                first = line.split()[0]
                number = int(first) if first.isdecimal() else len(names)
                if number >= len(names) or not names[number].strip():
                    raise UserError(f"cannot read {boxes}: {names_file} has no name for the class {first}; add it.")
                labels.add(names[number].strip())
        items.append(replace(match.item, labels=tuple(sorted(labels)) or ("normal",)))
    return items


def _by_label_file_names(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """labels/NAME_CODE[_CODE…].png beside frames/NAME.png: the codes, whatever the file holds."""
    codes: dict[Path, dict[str, set[str]]] = {}
    items = []
    for match in matches:
        directory = match.item.path.parent.parent / "labels"
        if directory not in codes:
            codes[directory] = defaultdict(set)
            for file in directory.iterdir() if directory.is_dir() else ():
                name, *rest = file.stem.split("_")
                codes[directory][name].update(rest)
        items.append(replace(match.item, labels=tuple(sorted(codes[directory].get(match.name, ())))))
    return items


def _by_vector_lists(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """Text files with lines «NAME 0 1 0 1»: a column of zeros and ones for each class."""
    classes: list[str] = mapping.settings["classes"]
    labels: dict[str, tuple[str, ...]] = {}
    for file in mapping.settings["files"]:
        if not (folder / file).is_file():
            continue
        for line in read_text(folder / file).splitlines():
            name, *values = re.split(r"[\s,]+", line.strip())
            if name and len(values) != len(classes):
                raise UserError(f"cannot read {folder / file}: '{line}' should end in {len(classes)} zeros or ones.")
            chosen = tuple(c for c, value in zip(classes, values, strict=True) if value == "1") if name else ()
            labels[name] = chosen or (mapping.settings["none"],)
    return [replace(m.item, labels=labels.get(m.name, ())) for m in matches]


def _by_case_table(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """case_pathology.csv, where there is one, says more of the polyp of a case."""
    table = folder / "case_pathology.csv"
    rows = read_csv(table, ("case", "pathology")) if table.is_file() else []
    pathology = {row["case"]: row["pathology"] for row in rows}
    return [
        replace(m.item, labels=(pathology[m.item.patient],))
        if m.item.labels == ("polyp",) and m.item.patient in pathology
        else m.item
        for m in matches
    ]


READERS: dict[str, Callable[[list[Match], Mapping, Path], list[Item]]] = {
    "paths": _by_path,
    "table": _by_table,
    "mask-names": _by_mask_names,
    "voc-boxes": _by_voc_boxes,
    "yolo-boxes": _by_yolo_boxes,
    "label-file-names": _by_label_file_names,
    "vector-lists": _by_vector_lists,
    "case-table": _by_case_table,
}


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
