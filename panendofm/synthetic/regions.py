"""Where the lesions of the labeled images are: regions.jsonl, one line a lesion.

    {"file": "kvasir-dataset-v2/polyps/….jpg", "label": "polyps", "box": [x1, y1, x2, y2], "polygon": [[x, y], …]}

Pixels of the image, right and bottom excluded. A part that the border, the position box or an
instrument hides doesn't count.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.files import write_text
from panendofm.synthetic.scene.lesions import Lesion, instrument_mask, lesion_mask
from panendofm.synthetic.scene.motion import camera_at
from panendofm.synthetic.scene.place import Scene, place_of
from panendofm.synthetic.truth import Box, Geometry

REGIONS_NAME = "regions.jsonl"
# What a lesion is called by the labels of the set. (A cushion carries a polyp, which is a lesion of its own.)
LABELS = {
    "polyp": "polyps",
    "cushion": "dyed-lifted-polyps",
    "wound": "dyed-resection-margins",
    "appendix": "normal-cecum",
}
_SMALLEST_PX = 64


@dataclass(frozen=True)
class Region:
    file: str
    label: str
    box: Box
    polygon: list[tuple[int, int]]


def visible_lesions(scene: Scene, seconds: float, geometry: Geometry) -> list[tuple[Lesion, NDArray[np.bool_]]]:
    """The lesions that show at a moment and their pixels [H, W]: no border, no position box, no instrument."""
    left, top, right, bottom = geometry.field_of_view.box
    shape = (bottom - top, right - left)
    camera = camera_at(scene, seconds)
    visible = geometry.visible_mask()
    if scene.instrument is not None and scene.lesions:
        visible[top:bottom, left:right] &= ~instrument_mask(scene.instrument, camera.sway, shape)
    shown = []
    for lesion in scene.lesions:
        mask = np.zeros(visible.shape, bool)
        mask[top:bottom, left:right] = lesion_mask(lesion, *place_of(lesion, camera), shape)
        mask &= visible
        if np.count_nonzero(mask) >= _SMALLEST_PX:
            shown.append((lesion, mask))
    return shown


def tight_box(mask: NDArray[np.bool_]) -> Box:
    """Left, top, right, bottom of what is set in a mask that is not empty; right and bottom excluded."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def regions_of(scene: Scene, seconds: float, geometry: Geometry, file: str) -> list[Region]:
    """The lesions that an image of the scene shows, each as its largest visible part."""
    regions = []
    for lesion, mask in visible_lesions(scene, seconds, geometry):
        contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        largest = max(contours, key=cv2.contourArea)
        if cv2.contourArea(largest) < _SMALLEST_PX:
            continue
        x, y, width, height = (int(v) for v in cv2.boundingRect(largest))
        outline = cv2.approxPolyDP(largest, 1.0, True).reshape(-1, 2)
        polygon = [(int(px), int(py)) for px, py in outline]
        regions.append(Region(file, LABELS[lesion.shape], (x, y, x + width, y + height), polygon))
    return regions


def write_regions(directory: Path, regions: list[Region]) -> None:
    write_text(directory / REGIONS_NAME, "".join(json.dumps(asdict(region)) + "\n" for region in regions))
