"""How each kind of dataset says what an image shows: by its path, a table, its masks, boxes or label files."""

from __future__ import annotations

import glob
import re
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from panendofm.atlas.datasets.mapping import Mapping
from panendofm.imaging.images import is_image, open_image
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import read_text

# JPEG blurs the colors of a mask; a smaller area than this share is a slip of the brush.
_COLOR_DISTANCE, _COLOR_SHARE = 80, 0.0005


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


@dataclass(frozen=True)
class Match:
    """A file that one of the mapping's rules takes for an image."""

    item: Item  # labels as far as the path tells
    relative: str
    name: str  # the file's name as the dataset's tables write it


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


def _by_mask_colors(matches: list[Match], mapping: Mapping, folder: Path) -> list[Item]:
    """Masks whose colors are classes: an image's labels are the colors that cover enough of its mask."""
    items = []
    for match in matches:
        image = match.item.path
        base = image.parent / mapping.settings["folder"]
        file = next((path for path in sorted(base.glob(f"{glob.escape(image.stem)}.*")) if is_image(path)), None)
        if file is None:
            items.append(match.item)
            continue
        with naming_path("read the mask", file):
            pixels = np.asarray(open_image(file)).astype(np.int16)  # [H, W, 3]
        shares = {
            label: float((np.abs(pixels - np.array(color)).max(axis=2) <= _COLOR_DISTANCE).mean())
            for label, color in mapping.settings["colors"].items()
        }
        shown = tuple(sorted(label for label, share in shares.items() if share >= _COLOR_SHARE))
        items.append(replace(match.item, labels=shown))
    return items


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
    """NAME.txt with class numbers, beside the image or in labels/. No boxes: normal.

    classes.txt names the numbers. Without it they are codes; as long as no table explains any, nothing is normal.
    """
    names_file = folder / "classes.txt"
    names = read_text(names_file).split("\n") if names_file.is_file() else None
    known = names is not None or any(code.isdecimal() for code in mapping.labels)
    items = []
    for match in matches:
        image = match.item.path
        places = (image.with_suffix(".txt"), image.parent.parent / "labels" / f"{image.stem}.txt")
        boxes = next((place for place in places if place.is_file()), None)
        labels = set()
        for line in read_text(boxes).split("\n") if boxes else []:
            if line.strip():
                first = line.split()[0]
                if names is None:
                    labels.add(first)
                    continue
                number = int(first) if first.isdecimal() else len(names)
                if number >= len(names) or not names[number].strip():
                    raise UserError(f"cannot read {boxes}: {names_file} has no name for the class {first}; add it.")
                labels.add(names[number].strip())
        normal = ("normal",) if known else ()
        items.append(replace(match.item, labels=tuple(sorted(labels)) or normal))
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


READERS: dict[str, Callable[[list[Match], Mapping, Path], list[Item]]] = {
    "paths": _by_path,
    "table": _by_table,
    "mask-names": _by_mask_names,
    "mask-colors": _by_mask_colors,
    "voc-boxes": _by_voc_boxes,
    "yolo-boxes": _by_yolo_boxes,
    "label-file-names": _by_label_file_names,
    "vector-lists": _by_vector_lists,
}
