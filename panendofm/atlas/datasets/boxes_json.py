"""Boxes of a whole dataset in one JSON file beside its masks, as Kvasir-SEG (kavsir_bboxes.json) and HyperKvasir have:

{NAME: {"height": 480, "width": 640, "bbox": [{"label": "polyp", "xmin": 12, "ymin": 30, "xmax": 90, "ymax": 140}]}}
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.build import Row
from panendofm.atlas.datasets.mapping import Mapping
from panendofm.atlas.datasets.regions import Region, mask_components, meaning_of
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json

# A box fits a mask when the mask inside it reaches nearly to its sides, and the boxes together hold nearly all of it.
_TIGHT_IOU, _HELD_SHARE = 0.7, 0.95


def listed_boxes(row: Row, mapping: Mapping) -> list[Region] | None:
    """What the dataset's box file lists for an image; None where it has no file or does not name the image.

    An image that the file knows in another size is as good as not named: its boxes would lie elsewhere.
    """
    path = Path(row.path)
    file = box_file(row, mapping)
    entry = _entries(file, file.stat().st_mtime_ns).get(path.stem) if file is not None else None
    if file is None or entry is None:
        return None
    try:
        if (int(entry["width"]), int(entry["height"])) != (row.width, row.height):
            return None
        found = []
        for box in entry["bbox"]:
            meaning = meaning_of(str(box["label"]), mapping) or meaning_of(mapping.regions["label"], mapping)
            x1, y1, x2, y2 = (float(box[key]) for key in ("xmin", "ymin", "xmax", "ymax"))
            if meaning is None or not (0 <= x1 < x2 <= row.width and 0 <= y1 < y2 <= row.height):
                raise ValueError
            found.append(Region(meaning, (x1, y1, x2, y2)))
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"cannot read {file}: the entry of {path.stem} needs height, width and bbox, each with a label and xmin, "
            "ymin, xmax, ymax inside the image; correct or remove it."
        ) from error


def box_file(row: Row, mapping: Mapping) -> Path | None:
    """The dataset's box file, where it has one."""
    name = mapping.regions.get("box_file")
    file = Path(row.path).parent / name if name else None
    return file.resolve() if file is not None and file.is_file() else None


@lru_cache(maxsize=8)
def _entries(file: Path, changed: int) -> dict[str, Any]:
    """`changed` is part of the cache's key."""
    content = read_json(file)
    if not isinstance(content, dict):
        raise UserError(f"cannot read {file}: it must be an object of images by name; correct or remove it.")
    return content


def boxes_fit(regions: list[Region], mask: NDArray[np.bool_]) -> bool:
    """Whether boxes and a mask [H, W] show the same. (Boxes of findings that touch are one part of the mask.)"""
    parts = mask_components(mask)
    inside = np.zeros_like(mask)
    for region in regions:
        x1, y1, x2, y2 = (round(value) for value in region.box)
        rows, columns = (np.flatnonzero(mask[y1:y2, x1:x2].any(axis)) for axis in (1, 0))
        if not len(rows):
            return False
        filled = (rows[-1] - rows[0] + 1) * (columns[-1] - columns[0] + 1)  # it lies inside the box: IoU is a quotient
        if filled < _TIGHT_IOU * (x2 - x1) * (y2 - y1):
            return False
        inside[y1:y2, x1:x2] = True
    pixels = sum(part.pixels for part in parts)
    return int((mask & inside).sum()) >= _HELD_SHARE * pixels
