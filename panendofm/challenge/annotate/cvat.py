"""CVAT: "CVAT for images 1.1" and "CVAT for video 1.1", read and written as annotations.xml.

Fields as CVAT's documentation of its XML format has them. Serial and decision are attributes of the labels.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

import numpy as np

from panendofm.challenge.annotate.shapes import (
    DECISION,
    DECISIONS,
    NOTHING,
    SERIAL,
    AnnotatedImage,
    Mask,
    Place,
    Shape,
    TaskSet,
    category_of,
)
from panendofm.challenge.files.xml_document import read_xml
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text

_ROOT = "annotations"


def reads(path: Path) -> bool:
    return path.suffix.lower() == ".xml"


def read(path: Path) -> list[AnnotatedImage]:
    root = read_xml(path, _ROOT)
    if root.findtext("version") != "1.1":
        raise UserError(
            f"{path}: this is CVAT's format {root.findtext('version')}, not 1.1; export «CVAT for images 1.1»."
        )
    annotator = root.findtext("meta/*/assignee/username") or ""
    date = (root.findtext("meta/*/updated") or root.findtext("meta/dumped") or "")[:10]
    if root.find("track") is not None:
        return _video(path, root, annotator, date)
    found = []
    for image in root.iter("image"):
        name = image.get("name", "")
        place = Place(path, name)
        size = place.size(image.get("width"), image.get("height"))
        shapes = tuple(_shape(place, item, size) for item in image)
        found.append(AnnotatedImage(name, 0, size, shapes, annotator, date))
    return found


def _video(path: Path, root: ElementTree.Element, annotator: str, date: str) -> list[AnnotatedImage]:
    """Boxes of tracks, frame by frame; a box that left the image is there as «outside»."""
    name = root.findtext("meta/source") or root.findtext("meta/*/source") or root.findtext("meta/*/name") or ""
    place = Place(path, name)
    size = place.size(*(root.findtext(f"meta/*/original_size/{side}") for side in ("width", "height")))
    frames: dict[int, list[Shape]] = defaultdict(list)
    last = int(place.numbers(root.findtext("meta/*/size") or 0)[0]) - 1
    for track in root.iter("track"):
        for item in track:
            frame = int(place.numbers(item.get("frame"))[0])
            last = max(last, frame)
            if item.get("outside") != "1":
                item.set("label", track.get("label", ""))
                frames[frame].append(_shape(Place(path, f"{name}, frame {frame}"), item, size))
    return [AnnotatedImage(name, f, size, tuple(frames[f]), annotator, date) for f in range(last + 1)]


def _shape(place: Place, item: ElementTree.Element, size: tuple[int, int]) -> Shape:
    category = category_of(item.get("label", ""))
    notes = {a.get("name", ""): (a.text or "").strip() for a in item.iter("attribute")}
    notes = {name: value for name, value in notes.items() if name in (SERIAL, DECISION) and value}
    place.upright(item.get("rotation"))
    if item.tag == "tag":
        return Shape(category, notes=notes)
    if item.tag == "box":
        return Shape(category, place.box(*(item.get(side) for side in ("xtl", "ytl", "xbr", "ybr"))), notes=notes)
    if item.tag == "polygon":
        points = [point.split(",") for point in item.get("points", "").split(";")]
        return Shape(category, outline=place.outline(points), notes=notes)
    if item.tag == "mask":
        return Shape(category, mask=_run_lengths(place, item, size), notes=notes)
    raise place.unknown_kind(item.tag)


def _run_lengths(place: Place, item: ElementTree.Element, size: tuple[int, int]) -> Mask:
    """Lengths of runs inside the box of the mask, row by row, the first of what is outside."""
    left, top, width, height = (int(v) for v in place.numbers(*map(item.get, ("left", "top", "width", "height"))))
    runs = [int(v) for v in place.numbers(*item.get("rle", "").split(","))]
    fits = left >= 0 and top >= 0 and left + width <= size[0] and top + height <= size[1]
    if not fits or min(runs) < 0 or sum(runs) != width * height:
        raise place.fail("the runs of a mask do not fill its box; export it again.")
    inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)
    mask = np.zeros((size[1], size[0]), bool)
    mask[top : top + height, left : left + width] = inside
    return mask


def write(out: Path, tasks: TaskSet) -> list[Path]:
    """annotations.xml to upload into a task of these images, and labels.json for its constructor («Raw»)."""
    root = ElementTree.Element(_ROOT)
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, task in enumerate(tasks.tasks):
        about = {"id": number, "name": task.file, "width": task.size[0], "height": task.size[1]}
        image = ElementTree.SubElement(root, "image", {name: str(value) for name, value in about.items()})
        for shape in task.shapes:
            for item in _elements(image, shape):
                for name, value in shape.notes.items():
                    ElementTree.SubElement(item, "attribute", name=name).text = value
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
    labels = [
        {"name": name, "attributes": _attributes(tasks.decides), **({"type": "tag"} if name == NOTHING else {})}
        for name in tasks.labels
    ]
    paths = [out / "annotations.xml", out / "labels.json"]
    write_text(paths[0], text)
    write_text(paths[1], json.dumps(labels, indent=1, ensure_ascii=False) + "\n")
    return paths


def _elements(image: ElementTree.Element, shape: Shape) -> list[ElementTree.Element]:
    common = {"label": shape.label, "source": "manual", "occluded": "0", "z_order": "0"}
    if shape.box is not None:
        x, y, w, h = shape.box
        corners = {"xtl": x, "ytl": y, "xbr": x + w, "ybr": y + h}
        places = {name: repr(float(value)) for name, value in corners.items()}
        return [ElementTree.SubElement(image, "box", {**common, **places})]
    if shape.is_label:
        return [ElementTree.SubElement(image, "tag", label=common["label"], source="manual")]
    texts = [";".join(f"{x:.2f},{y:.2f}" for x, y in points) for points in shape.outlines()]
    return [ElementTree.SubElement(image, "polygon", common, points=text) for text in texts]


def _attributes(decides: bool) -> list[dict[str, object]]:
    serial: dict[str, object] = {"name": SERIAL, "mutable": False, "input_type": "text", "default_value": ""}
    found = [{**serial, "values": [""]}]
    if decides:
        choice = {"input_type": "select", "default_value": DECISIONS[0], "values": list(DECISIONS)}
        found.append({"name": DECISION, "mutable": False, **choice})
    return found
