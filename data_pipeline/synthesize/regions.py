"""Where the lesions of the labelled images are: regions.jsonl, one line a lesion.

    {"file": "kvasir-dataset-v2/polyps/….jpg", "label": "polyps", "box": [x1, y1, x2, y2], "polygon": [[x, y], …]}

Pixels of the image, right and bottom excluded. A part that the border or the position box hides doesn't count.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from data_pipeline.synthesize.lesions import lesion_mask
from data_pipeline.synthesize.motion import camera_at
from data_pipeline.synthesize.scene import Scene, place_of
from data_pipeline.synthesize.truth import Box, Geometry
from runtime.files import write_text

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


def regions_of(scene: Scene, seconds: float, geometry: Geometry, file: str) -> list[Region]:
    """The lesions that an image of the scene shows."""
    left, top, right, bottom = geometry.field_of_view.box
    visible = geometry.visible_mask()
    regions = []
    for lesion in scene.lesions:
        centre, size = place_of(lesion, camera_at(scene, seconds))
        mask = np.zeros(visible.shape, bool)
        mask[top:bottom, left:right] = lesion_mask(lesion, centre, size, (bottom - top, right - left))
        contours, _ = cv2.findContours((mask & visible).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        if not contours:
            continue
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
