"""Where the polyps are in every frame of every video and image folder: boxes.csv.

    file,frame,category,x,y,w,h,object,width,height
    ldpolypvideo/Videos/1.avi,0,polyp,112,80,96,70,scene0.0,400,320
    ldpolypvideo/Videos/1.avi,50,,,,,,,400,320                                ← nothing to find

The form that `challenge score` reads as truth (compare by whole paths). An object keeps its name over its frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text
from panendofm.synthetic.plan import SourcePlan
from panendofm.synthetic.scene.devices import FULL_FRAME, geometry_of
from panendofm.synthetic.sources import polyp_boxes, scene_of, seconds_of
from panendofm.synthetic.truth import Box, Geometry

BOXES_NAME = "boxes.csv"
COLUMNS = ("file", "frame", "category", "x", "y", "w", "h", "object", "width", "height")


@dataclass(frozen=True)
class LabeledPolyps:
    """The polyps of an evaluation image, which some frames show instead of a scene."""

    width: int
    height: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class FrameBoxes:
    file: str
    frame: int
    width: int
    height: int
    objects: tuple[tuple[str, Box], ...]


def frame_boxes(plan: SourcePlan, labeled: Mapping[str, LabeledPolyps], seed: int) -> list[FrameBoxes]:
    """The polyps of every frame. Follows what `sources` shows: leaked images, and stretches that repeat a frame."""
    geometry = geometry_of(plan.device, plan.width, plan.height)
    frozen = {f for span in plan.faults if span.what == "frozen" for f in range(span.first + 1, span.last + 1)}
    leaks = {frame: leak for leak in plan.leaks for frame in range(leak.first, leak.last + 1)}
    shown: tuple[tuple[str, Box], ...] | None = None
    rows = []
    for number, span in enumerate(plan.scenes):
        scene = scene_of(plan, number, seed)
        for index in range(span.first, span.last + 1):
            if index in leaks:
                image = leaks[index].evaluation_image
                name, boxes = Path(image).stem, _leaked_boxes(labeled.get(image), plan.device, geometry)
                shown = tuple((f"{name}.{i}", box) for i, box in enumerate(boxes))
            elif shown is None or index not in frozen:
                boxes = polyp_boxes(scene, seconds_of(plan, index), geometry)
                shown = tuple((f"scene{number}.{i}", box) for i, box in enumerate(boxes))
            rows.append(FrameBoxes(_file(plan, index), _frame(plan, index), plan.width, plan.height, shown))
    return rows


def _file(plan: SourcePlan, index: int) -> str:
    """Frames of an image folder are files of their own."""
    return plan.path if plan.is_video else f"{plan.path}/{plan.file_name.format(plan.first_number + index)}"


def _frame(plan: SourcePlan, index: int) -> int:
    return index if plan.is_video else 0


def _leaked_boxes(image: LabeledPolyps | None, device: str, geometry: Geometry) -> list[Box]:
    """Where an evaluation image's polyps lie in a frame that shows it; see `sources.leaked_frame`."""
    if image is None:
        return []
    whole = (0, 0, image.width, image.height)
    view = geometry_of("rectangle", image.width, image.height).field_of_view.box if device == FULL_FRAME else whole
    x, y = geometry.width / (view[2] - view[0]), geometry.height / (view[3] - view[1])
    boxes = []
    for x1, y1, x2, y2 in image.boxes:
        left, top = max(0, round((x1 - view[0]) * x)), max(0, round((y1 - view[1]) * y))
        right, bottom = round((x2 - view[0]) * x), round((y2 - view[1]) * y)
        right, bottom = min(geometry.width, right), min(geometry.height, bottom)
        if right > left and bottom > top:
            boxes.append((left, top, right, bottom))
    return boxes


def write_frame_boxes(directory: Path, rows: list[FrameBoxes]) -> None:
    table: list[tuple[object, ...]] = []
    for row in rows:
        for name, (x1, y1, x2, y2) in row.objects:
            table.append((row.file, row.frame, "polyp", x1, y1, x2 - x1, y2 - y1, name, row.width, row.height))
        if not row.objects:
            table.append((row.file, row.frame, "", "", "", "", "", "", row.width, row.height))
    write_text(directory / BOXES_NAME, csv_text(COLUMNS, table))
