"""Images with masks or boxes: from folders of the public datasets, a folder with images/ and masks/, or an atlas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import (
    NEAR_DUPLICATE_BITS,
    Box,
    Mapping,
    Row,
    box_file,
    boxes_fit,
    build_atlas,
    has_regions,
    listed_boxes,
    load_atlas,
    load_mappings,
    mask_components,
    mask_files,
    read_mask,
    read_regions,
)
from panendofm.imaging.groups import content_groups
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError

Unusable = Literal["refuse", "leave-out"]
Mask = NDArray[np.bool_]  # [H, W]
POLYP = "polyp"
_POLYP_FINDINGS = {"colon-polyp", "intestinal-polyp"}
# A dataset whose layout is used for any folder that has images/ and masks/.
_PLAIN_LAYOUT = "kvasir-seg"
_PLAIN_FOLDERS = (("images", "masks"), ("image", "mask"))


@dataclass(frozen=True)
class DenseImage:
    """An image and where its truth is. Without masks and boxes there is nothing to find in it."""

    path: str
    sha256: str
    perceptual_hash: bytes
    dataset: str
    width: int
    height: int
    center: str | None
    links: tuple[str, ...]  # patients, videos, contents; images that share one stay together
    masked: bool = False  # the dataset gives masks, so that a segmentation can be scored
    masks: tuple[tuple[str, Path], ...] = ()  # class, file; empty ones are left out
    boxes: tuple[tuple[str, Box], ...] = ()  # class, (x1, y1, x2, y2); else they come from the masks
    name: str = ""  # unique in the set: dataset/name

    @property
    def has_finding(self) -> bool:
        return bool(self.masks or self.boxes)


@dataclass(frozen=True)
class Truth:
    """What is to be found in an image, class by class."""

    masks: NDArray[np.bool_]  # [K, H, W]; filled boxes where the dataset gives no masks
    boxes: list[list[tuple[float, float, float, float]]]  # [K]: x, y, w, h; the dataset's own, else of each part


def class_of(finding: str, classes: str) -> str | None:
    """What a task calls a finding of the taxonomy; None when it is not of the task."""
    if classes == "all":
        return finding
    return POLYP if finding in _POLYP_FINDINGS else None


def read_dense_images(
    sources: Sequence[str], classes: str = POLYP, unusable: Unusable = "refuse", bits: int = NEAR_DUPLICATE_BITS
) -> list[DenseImage]:
    """All images of some datasets whose masks or boxes are known, every content once."""
    mappings = load_mappings()
    images: dict[str, DenseImage] = {}
    problems: Counter[str] = Counter()
    misfits: dict[Path, list[str]] = defaultdict(list)
    for source in sources:
        rows = read_rows(source)
        found = 0
        for row in rows:
            mapping = mappings.get(row.dataset) or mappings[_PLAIN_LAYOUT]
            if not has_regions(row, mapping):
                continue
            found += 1
            try:
                image = _dense_image(row, mapping, classes, misfits)
            except UserError as problem:
                if unusable == "refuse":
                    raise
                problems[str(problem)] += 1
                continue
            images.setdefault(row.sha256, image)
        if not found:
            raise UserError(
                f"{source}: none of its images has masks or boxes that are known here; name another folder."
            )
    for file, names in misfits.items():
        warn(
            f"{file}: the boxes of {len(names)} images do not fit their masks, {names[0]} first; detection is scored "
            "by the boxes where it lists any, else by the parts of the masks."
        )
    if problems:
        warn(f"{sum(problems.values())} images are left out; the first: {next(iter(problems))}")
    if not images:
        raise UserError(f"{', '.join(sources)}: no image is usable; see what is said above.")
    return with_contents(list(images.values()), bits)


def read_rows(source: str) -> list[Row]:
    path = Path(source)
    if path.suffix == ".parquet":
        return load_atlas(path).rows
    plain = path.is_dir() and any((path / one).is_dir() and (path / other).is_dir() for one, other in _PLAIN_FOLDERS)
    try:
        return build_atlas([source], NEAR_DUPLICATE_BITS).rows
    except UserError:
        if not plain:
            raise
    rows = build_atlas([f"{_PLAIN_LAYOUT}:{source}"], NEAR_DUPLICATE_BITS).rows
    return [replace(row, dataset=path.resolve().name) for row in rows]


def _dense_image(row: Row, mapping: Mapping, classes: str, misfits: dict[Path, list[str]]) -> DenseImage:
    links = [f"{kind} {value}" for kind, value in (("patient", row.patient), ("video", row.video)) if value]
    image = DenseImage(
        row.path, row.sha256, row.perceptual_hash, row.dataset, row.width, row.height, row.center, tuple(links)
    )
    if "masks" not in mapping.regions:
        regions = read_regions([row])
        boxes = [(name, r.box) for r in regions.of[row.sha256] if (name := class_of(r.label.finding, classes))]
        return replace(image, boxes=tuple(boxes))
    files = mask_files(row, mapping)
    if not files and any(label.category == "pathological-findings" for label in row.labels):
        looked = " or ".join(pattern.replace("{stem}", Path(row.path).stem) for pattern in mapping.regions["masks"])
        raise UserError(f"{row.path}: it has no mask ({looked}); add the mask or remove the image.")
    masks, union = [], np.zeros((row.height, row.width), bool)
    for _, meaning, file in files:
        name = class_of(meaning.finding, classes) if meaning is not None else None
        if name is None:
            continue
        mask = read_mask(file)
        if mask is None:
            raise UserError(f"cannot read the mask {file}; replace it.")
        if mask.shape != (row.height, row.width):
            raise UserError(
                f"{file}: the mask is {mask.shape[1]} × {mask.shape[0]}, its image {row.width} × {row.height}; "
                "give it the image's size or remove both."
            )
        union |= mask
        if mask.any():
            masks.append((name, file))
    listed = listed_boxes(row, mapping)
    file_of_boxes = box_file(row, mapping)
    if file_of_boxes is not None and not boxes_fit(listed or [], union):
        misfits[file_of_boxes].append(Path(row.path).stem)
    own = [(name, r.box) for r in listed or () if (name := class_of(r.label.finding, classes))]
    return replace(image, masks=tuple(masks), boxes=tuple(own), masked=True)


def with_contents(images: list[DenseImage], bits: int = NEAR_DUPLICATE_BITS) -> list[DenseImage]:
    """Near-duplicates over all images together, and names that differ."""
    contents = content_groups([p.sha256 for p in images], [p.perceptual_hash for p in images], bits)
    stems = Counter((p.dataset, Path(p.path).stem) for p in images)
    result = []
    for image, content in zip(images, contents.tolist(), strict=True):
        stem, suffix = Path(image.path).stem, Path(image.path).suffix
        name = f"{stem}{suffix}" if stems[image.dataset, stem] == 1 else f"{stem}_{image.sha256[:8]}{suffix}"
        links = (*(link for link in image.links if not link.startswith("content ")), f"content {content}")
        result.append(replace(image, links=links, name=f"{image.dataset}/{name}"))
    return result


def read_truth(image: DenseImage, classes: Sequence[str]) -> Truth:
    masks = np.zeros((len(classes), image.height, image.width), bool)
    boxes: list[list[tuple[float, float, float, float]]] = [[] for _ in classes]
    for name, file in image.masks:
        if name in classes:
            mask = read_mask(file)
            assert mask is not None, file  # it was read when the images were listed
            masks[list(classes).index(name)] |= mask
    for name, (x1, y1, x2, y2) in image.boxes:
        if name in classes:
            number = list(classes).index(name)
            if not image.masked:
                masks[number, round(y1) : round(y2), round(x1) : round(x2)] = True
            boxes[number].append((x1, y1, x2 - x1, y2 - y1))
    if image.masks and not image.boxes:
        for number in range(len(classes)):
            parts = mask_components(masks[number])
            boxes[number] = [(p.box[0], p.box[1], p.box[2] - p.box[0], p.box[3] - p.box[1]) for p in parts]
    return Truth(masks, boxes)


def classes_in(images: Sequence[DenseImage]) -> tuple[str, ...]:
    return tuple(sorted({name for p in images for name, _ in (*p.masks, *p.boxes)}))
