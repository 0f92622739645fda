"""Where things are in the images of the atlas: masks, boxes and outlines of the datasets, or a list of one's own.

A list is a JSONL file, one region a line, files relative to it:

    {"file": "polyps/1.jpg", "label": "polyps", "box": [x1, y1, x2, y2], "polygon": [[x, y], …]}

or a folder of LabelMe files. `"annotator": "a"` keeps apart what several people marked in the same image; of LabelMe
files the folder below the given one names the annotator. Boxes are pixels of the image, right and bottom excluded. A
label is one of the dataset's own, or a path of the taxonomy (colon/pathological-findings/colon-polyp).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panendofm.atlas.build import Row
from panendofm.atlas.datasets.codes import codes_file, with_codes
from panendofm.atlas.datasets.mapping import Mapping, load_mappings
from panendofm.atlas.taxonomy import Label, load_taxonomy
from panendofm.imaging.images import is_image
from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, read_json, read_json_lines, read_text

# A component smaller than this share of the image is a slip of the brush.
MIN_AREA_SHARE = 0.0005
_MASK_ABOVE = 127

Box = tuple[float, float, float, float]
Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Region:
    """One thing in an image; the polygon is empty where only a box is known."""

    label: Label
    box: Box  # x1, y1, x2, y2
    polygon: Polygon = ()
    annotator: str = ""  # who marked it, where a list of one's own says so


@dataclass(frozen=True)
class Component:
    """A connected part of a mask."""

    box: tuple[int, int, int, int]
    pixels: int
    polygon: Polygon


@dataclass
class Regions:
    """Regions by the checksum of their image, and what could not be used: reason → number."""

    of: dict[str, list[Region]] = field(default_factory=lambda: defaultdict(list))
    problems: Counter[str] = field(default_factory=Counter)
    complete: set[str] = field(default_factory=set)  # images whose masks show every finding of their kind


def mask_components(mask: NDArray[Any], min_area_share: float = MIN_AREA_SHARE) -> list[Component]:
    """8-connected parts of a mask [H, W] in the order of their first pixel; smaller ones are left out."""
    filled = (np.asarray(mask) > 0).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(filled, connectivity=8)
    first = np.full(count, labels.size)
    values, begins = np.unique(labels, return_index=True)
    first[values] = begins
    parts = []
    for number in sorted(range(1, count), key=lambda n: first[n]):
        x, y, width, height, pixels = (int(v) for v in stats[number])
        if pixels < min_area_share * filled.size:
            continue
        own = (labels[y : y + height, x : x + width] == number).astype(np.uint8)
        contours, _ = cv2.findContours(own, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE, offset=(x, y))
        outline = cv2.approxPolyDP(max(contours, key=cv2.contourArea), 1.0, True).reshape(-1, 2)
        polygon = tuple((float(px), float(py)) for px, py in outline)
        parts.append(Component((x, y, x + width, y + height), pixels, polygon))
    return parts


def read_regions(rows: Sequence[Row], own_list: Path | None = None) -> Regions:
    """All regions of the images, from the datasets' own files and from a list of the user's."""
    mappings = load_mappings()
    regions = Regions()
    for row in rows:
        mapping = mappings.get(row.dataset)
        if mapping is not None and has_regions(row, mapping) and row.sha256 not in regions.of:
            for region in _of_dataset(row, mapping, regions):
                _add(regions, row, region)
    if own_list is not None:
        by_path = {row.path: row for row in rows}
        for file, label, box, polygon, annotator in _listed(own_list):
            row_of_file = by_path.get(str(file.resolve()))
            if row_of_file is None:
                regions.problems["image is not in the atlas"] += 1
                continue
            meaning = meaning_of(label, mappings.get(row_of_file.dataset))
            if meaning is None:
                regions.problems[f"unknown label '{label}'"] += 1
            else:
                _add(regions, row_of_file, Region(meaning, box, polygon, annotator))
    return regions


def has_regions(row: Row, mapping: Mapping) -> bool:
    """Whether masks or boxes of this image are known; some datasets have them for one folder only (`within`)."""
    return bool(mapping.regions) and mapping.regions.get("within", "") in row.path


def save_regions(regions: Regions, path: Path) -> int:
    """PATH (Parquet: sha256, label, x1, y1, x2, y2, polygon as x1 y1 x2 y2 …); returns the number of rows."""
    rows = [(digest, region) for digest, found in sorted(regions.of.items()) for region in found]
    columns: dict[str, Any] = {
        "sha256": pa.array([digest for digest, _ in rows], pa.string()),
        "label": pa.array([str(region.label) for _, region in rows], pa.string()),
        **{
            name: pa.array([r.box[i] for _, r in rows], pa.float64()) for i, name in enumerate(("x1", "y1", "x2", "y2"))
        },
        "polygon": pa.array([[v for point in r.polygon for v in point] for _, r in rows], pa.list_(pa.float64())),
    }
    with atomic_file(path) as stream:
        pq.write_table(pa.table(columns), stream)
    return len(rows)


def _add(regions: Regions, row: Row, region: Region) -> None:
    x1, y1, x2, y2 = region.box
    if not (0 <= x1 < x2 <= row.width and 0 <= y1 < y2 <= row.height):
        regions.problems["box is empty or outside its image"] += 1
        return
    regions.of[row.sha256].append(region)


def meaning_of(label: str, mapping: Mapping | None) -> Label | None:
    """The one label of the taxonomy that a region's name stands for."""
    own = mapping.meaning(label) if mapping is not None else None
    if own:
        return own[0]
    if label.count("/") not in (2, 3):
        return None
    try:
        return load_taxonomy().resolve(label.split("/"), label)
    except UserError:
        return None


# ------------------------------------------------------------------------------------------ files of the datasets


def _of_dataset(row: Row, mapping: Mapping, regions: Regions) -> Iterator[Region]:
    path = Path(row.path)
    if "masks" in mapping.regions:
        yield from _from_masks(row, mapping, regions)
    elif mapping.regions.get("boxes") == "voc":
        file = Path(str(path).replace("/Image/", "/Annotation/", 1)).with_suffix(".xml")
        if file.is_file():
            yield from _from_voc(file, mapping, regions)
    elif mapping.regions.get("boxes") == "yolo":
        places = (path.with_suffix(".txt"), path.parent.parent / "labels" / f"{path.stem}.txt")
        file_there = next((place for place in places if place.is_file()), None)
        if file_there is not None:
            yield from _from_yolo(file_there, row, mapping, regions)
    elif mapping.regions.get("boxes") == "ldpolypvideo":
        file = Path(str(path).replace("/Images/", "/Annotations/", 1)).with_suffix(".txt")
        if file.is_file():
            yield from _from_ldpolypvideo(file, mapping)
    elif mapping.regions.get("boxes") == "kvasir-capsule":
        yield from _from_capsule_table(path, mapping, regions)


def mask_files(row: Row, mapping: Mapping) -> list[tuple[str, Label | None, Path]]:
    """An image's masks: the name of what they show, its meaning (None: not mapped) and the file.

    The mapping's patterns lead from the image's folder to the files; {stem} stands for the image's name,
    {number} for the last number in it, and {folder} for the name of its folder, which may be the label too.
    """
    path = Path(row.path)
    stem, parent = (re.sub(r"([*?[])", r"[\1]", name) for name in (path.stem, path.parent.name))  # literally, for glob
    found: dict[Path, None] = {}
    for pattern in mapping.regions.get("masks", ()):
        number = re.findall(r"\d+", path.stem)[-1:]
        filled = pattern.replace("{stem}", stem).replace("{folder}", parent).replace("{number}", "".join(number))
        steps, _, rest = filled.rpartition("../")
        base = (path.parent / f"{steps}../").resolve() if "../" in filled else path.parent
        found |= dict.fromkeys(sorted(p for p in base.glob(rest) if is_image(p)))
    said = str(mapping.regions.get("label", "")).replace("{folder}", path.parent.name)
    labeled = [(said or file.stem.removeprefix(path.stem + "_"), file) for file in found]
    return [(label, meaning_of(label, mapping), file) for label, file in labeled]


def read_mask(path: Path) -> NDArray[np.bool_] | None:
    """A mask [H, W]: set from the middle gray on, as JPEG blurs edges; None when it can't be read."""
    gray = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    return None if gray is None else np.asarray(gray > _MASK_ABOVE)


def _from_masks(row: Row, mapping: Mapping, regions: Regions) -> Iterator[Region]:
    for label, meaning, file in mask_files(row, mapping):
        mask = read_mask(file)
        if meaning is None:
            regions.problems[f"{row.dataset}: unknown label '{label}'"] += 1
        elif mask is None:
            regions.problems[f"{row.dataset}: mask can't be read"] += 1
        elif mask.shape != (row.height, row.width):
            regions.problems[f"{row.dataset}: mask of another size than its image"] += 1
        else:
            regions.complete.add(row.sha256)
            for part in mask_components(mask):
                yield Region(meaning, part.box, part.polygon)


def _from_voc(file: Path, mapping: Mapping, regions: Regions) -> Iterator[Region]:
    for node in ElementTree.parse(file).iterfind("object"):
        name = (node.findtext("name") or "").strip()
        meaning = meaning_of(name, mapping)
        corners = [node.findtext(f"bndbox/{corner}") for corner in ("xmin", "ymin", "xmax", "ymax")]
        if meaning is None or None in corners:
            regions.problems[f"{mapping.dataset}: unknown label '{name}' or a box without corners"] += 1
            continue
        x1, y1, x2, y2 = (float(corner or 0) for corner in corners)
        yield Region(meaning, (x1, y1, x2, y2))


def _from_yolo(file: Path, row: Row, mapping: Mapping, regions: Regions) -> Iterator[Region]:
    """Class number, center and size as shares of the image; classes.txt or a table of codes above names the classes."""
    names_file = _above(file, "classes.txt")
    names = read_text(names_file).split("\n") if names_file else []
    if names_file is None:
        mapping = _explained(mapping, _above(file, codes_file(mapping)))
    for line in read_text(file).splitlines():
        parts = line.split()
        number = int(parts[0]) if parts and parts[0].isdecimal() else -1
        name = names[number].strip() if 0 <= number < len(names) else str(number)
        meaning = meaning_of(name, mapping)
        if len(parts) < 5 or meaning is None:
            regions.problems[f"{mapping.dataset}: a line of a box file can't be read"] += 1
            continue
        cx, cy, width, height = (float(part) for part in parts[1:5])
        left, top = (cx - width / 2) * row.width, (cy - height / 2) * row.height
        box = (left, top, left + width * row.width, top + height * row.height)
        yield Region(meaning, tuple(round(v) for v in box))  # type: ignore[arg-type]


def _above(file: Path, name: str) -> Path | None:
    return next((folder / name for folder in file.parents[:4] if (folder / name).is_file()), None)


def _explained(mapping: Mapping, table: Path | None) -> Mapping:
    return mapping if table is None else _with_table(mapping.dataset, table, table.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _with_table(dataset: str, table: Path, changed: int) -> Mapping:
    """`changed` is part of the cache's key."""
    return with_codes(load_mappings()[dataset], table)


def _from_ldpolypvideo(file: Path, mapping: Mapping) -> Iterator[Region]:
    """The number of polyps, then left, top, right and bottom of each."""
    lines = [line.split() for line in read_text(file).splitlines() if line.strip()]
    meaning = meaning_of(mapping.regions["label"], mapping)
    try:
        boxes = [tuple(float(word) for word in line[:4]) for line in lines[1:]]
        if meaning is None or len(boxes) != int(lines[0][0]):
            raise ValueError
        for x1, y1, x2, y2 in boxes:
            yield Region(meaning, (x1, y1, x2, y2))
    except (ValueError, IndexError) as error:
        raise UserError(f"cannot read {file}: it needs the number of boxes and four numbers for each.") from error


def _from_capsule_table(path: Path, mapping: Mapping, regions: Regions) -> Iterator[Region]:
    """metadata.csv beside the class folders or above: file, class and the four corners of a box, where there is one."""
    for line in _capsule_boxes(path.parent).get(path.name, ()):
        meaning = meaning_of(line["finding_class"], mapping)
        if meaning is None:
            regions.problems[f"{mapping.dataset}: unknown label '{line['finding_class']}'"] += 1
            continue
        xs, ys = ([float(line[f"{axis}{corner}"]) for corner in "1234"] for axis in "xy")
        yield Region(meaning, (min(xs), min(ys), max(xs), max(ys)))


@lru_cache(maxsize=64)
def _capsule_boxes(folder: Path) -> dict[str, list[dict[str, str]]]:
    table = next((p / "metadata.csv" for p in (folder, *folder.parents[:2]) if (p / "metadata.csv").is_file()), None)
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for line in read_csv(table, ("filename", "finding_class", "x1", "y4")) if table is not None else ():
        if line["x1"]:
            found[line["filename"]].append(line)
    return dict(found)


# ------------------------------------------------------------------------------------------ a list of one's own


Listed = tuple[Path, str, Box, Polygon, str]  # image, label, box, outline, annotator


def _listed(path: Path) -> Iterator[Listed]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            folders = file.relative_to(path).parts[:-1]
            yield from _from_labelme(file, folders[0] if folders else "")
        return
    for number, line in enumerate(read_json_lines(path), 1):
        try:
            polygon = tuple((float(x), float(y)) for x, y in line.get("polygon") or ())
            box = line.get("box") or _box_around(polygon)
            x1, y1, x2, y2 = (float(value) for value in box)
            yield (
                path.parent / line["file"],
                str(line["label"]),
                (x1, y1, x2, y2),
                polygon,
                str(line.get("annotator") or ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}, line {number}: a region needs file, label and box (four numbers) or polygon; correct it."
            ) from error


def _from_labelme(file: Path, annotator: str) -> Iterator[Listed]:
    content = read_json(file)
    if not isinstance(content, dict) or "shapes" not in content:
        return
    image = file.parent / str(content.get("imagePath", "")).replace("\\", "/")
    for shape in content["shapes"]:
        try:
            points = tuple((float(x), float(y)) for x, y in shape["points"])
            box = _box_around(points)
            polygon = points if shape.get("shape_type", "polygon") == "polygon" else ()
            yield image, str(shape["label"]), box, polygon, annotator
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"cannot read {file}: a shape needs a label and points; correct it in LabelMe.") from error


def _box_around(points: Sequence[tuple[float, float]]) -> Box:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return (min(xs), min(ys), max(xs), max(ys))
