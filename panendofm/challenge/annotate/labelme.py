"""LabelMe: one JSON file beside each image. Serial and decision stand in a shape's description.

LabelMe keeps what it does not know at the top of a file, so the candidate of a whole image's label stands there.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from panendofm.challenge.annotate.shapes import (
    DECISION,
    MALFORMED,
    SERIAL,
    AnnotatedImage,
    Mask,
    Place,
    Shape,
    Task,
    TaskSet,
    category_of,
    notes_of,
    notes_text,
)
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json, read_json_object, write_json

_OWN = "panendofm"
_DECIDED = f"{DECISION}: "
_VERSION = "5.4.1"


def reads(path: Path) -> bool:
    if path.is_dir():
        return any(path.glob("*.json"))
    document = read_json(path) if path.suffix.lower() == ".json" else None
    return isinstance(document, dict) and "imagePath" in document and "shapes" in document


def read(path: Path) -> list[AnnotatedImage]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [_annotated(file) for file in files]


def _annotated(path: Path) -> AnnotatedImage:
    document = read_json_object(path)
    try:
        name = PurePosixPath(str(document["imagePath"]).replace("\\", "/")).name
        place = Place(path, name)
        size = place.size(document["imageWidth"], document["imageHeight"])
        shapes = [_shape(place, shape, size) for shape in document["shapes"]]
        flags = [flag for flag, chosen in (document.get("flags") or {}).items() if chosen]
        notes = {k: str(v) for k, v in (document.get(_OWN) or {}).items() if k in (SERIAL, DECISION)}
        decisions = [flag.removeprefix(_DECIDED) for flag in flags if flag.startswith(_DECIDED)]
        if decisions:
            notes[DECISION] = decisions[0]
        labels = [flag for flag in flags if not flag.startswith(_DECIDED)]
    except MALFORMED as error:
        raise UserError(f"{path}: this is no file of LabelMe ({error!r}); save it again there.") from None
    return AnnotatedImage(name, 0, size, (*shapes, *(Shape(category_of(label), notes=notes) for label in labels)))


def _shape(place: Place, shape: dict[str, Any], size: tuple[int, int]) -> Shape:
    kind, points = str(shape.get("shape_type", "polygon")), shape["points"]
    category, notes = category_of(str(shape["label"])), notes_of(str(shape.get("description") or ""))
    if kind == "rectangle":
        if len(points) not in (2, 4):
            raise place.fail(f"a rectangle has {len(points)} points, not 2; draw it again.")
        xs, ys = zip(*(place.numbers(*point) for point in points), strict=True)
        return Shape(category, place.box(min(xs), min(ys), max(xs), max(ys)), notes=notes)
    if kind == "polygon":
        return Shape(category, outline=place.outline(points), notes=notes)
    if kind == "mask":
        return Shape(category, mask=_mask(place, shape, size), notes=notes)
    raise place.unknown_kind(kind)


def _mask(place: Place, shape: dict[str, Any], size: tuple[int, int]) -> Mask:
    """A PNG of the pixels between two corners, both included."""
    (x1, y1), (x2, y2) = (place.numbers(*point) for point in shape["points"])
    left, top, right, bottom = int(x1), int(y1), int(x2), int(y2)
    try:
        with Image.open(io.BytesIO(base64.b64decode(shape["mask"]))) as image:
            inside = np.asarray(image.convert("L")) > 0
    except (OSError, ValueError, TypeError, SyntaxError) as error:
        raise place.fail(f"its mask cannot be read ({error}); draw it again.") from None
    mask = np.zeros((size[1], size[0]), bool)
    window = mask[top : bottom + 1, left : right + 1]
    if min(left, top) < 0 or window.shape != inside.shape:
        raise place.fail("a mask does not fit between its corners; draw it again.")
    window[:] = inside
    return mask


def write(out: Path, tasks: TaskSet) -> list[Path]:
    """One file an image; its name is the image's."""
    paths = []
    for task in tasks.tasks:
        path = out / f"{PurePosixPath(task.file).stem}.json"
        write_json(path, _document(task, tasks))
        paths.append(path)
    return paths


def _document(task: Task, tasks: TaskSet) -> dict[str, Any]:
    labels = [shape for shape in task.shapes if shape.is_label]
    flags = {label: any(label == shape.label for shape in labels) for label in tasks.labels}
    if tasks.decides and labels:
        flags |= {f"{_DECIDED}gold": False, f"{_DECIDED}back": False}
    serials = [shape.notes[SERIAL] for shape in labels if SERIAL in shape.notes]
    return {
        "version": _VERSION,
        "flags": flags,
        "shapes": [found for shape in task.shapes for found in _shapes(shape)],
        "imagePath": tasks.image_url + task.file,
        "imageData": None,
        "imageHeight": task.size[1],
        "imageWidth": task.size[0],
        **({_OWN: {SERIAL: serials[0]}} if serials else {}),
    }


def _shapes(shape: Shape) -> list[dict[str, Any]]:
    common: dict[str, Any] = {
        "label": shape.label,
        "group_id": None,
        "description": notes_text(shape.notes),
        "flags": {},
    }
    if shape.box is not None:
        x, y, w, h = shape.box
        return [{**common, "shape_type": "rectangle", "points": [[x, y], [x + w, y + h]]}]
    outlines = [[list(point) for point in points] for points in shape.outlines()]
    return [{**common, "shape_type": "polygon", "points": points} for points in outlines]
