"""Label Studio: its JSON export, and tasks with predictions beside a labeling configuration.

Coordinates are percentages of the image there. One export may hold several people's annotations of one image.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from panendofm.challenge.annotate.shapes import (
    DECISION,
    DECISIONS,
    MALFORMED,
    NOTHING,
    SERIAL,
    UNDECIDED,
    AnnotatedImage,
    Place,
    Shape,
    TaskSet,
    category_of,
    notes_of,
    notes_text,
)
from panendofm.challenge.files.finding_model import Box
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json, write_json, write_text

_BOX, _OUTLINE, _LABEL = "rectanglelabels", "polygonlabels", "choices"
_IMAGE, _BOXES, _OUTLINES, _LABELS = "image", "boxes", "outlines", "label"
_LABEL_DECISION = "label_decision"  # a label has no region that a choice could belong to


def reads(path: Path) -> bool:
    """A list of tasks; LabelMe's files are objects."""
    if path.suffix.lower() != ".json":
        return False
    document = read_json(path)
    return isinstance(document, list) and all(isinstance(task, dict) and "data" in task for task in document)


def read(path: Path) -> list[AnnotatedImage]:
    found = []
    for number, task in enumerate(read_json(path), 1):
        where = f"task {task.get('id', number)}"
        try:
            name = _image_name(task["data"])
            for annotation in task.get("annotations") or []:
                if annotation.get("was_cancelled"):
                    continue
                found.append(_annotated(Place(path, f"{where}, {name}"), name, annotation))
        except (*MALFORMED, StopIteration) as error:
            raise UserError(
                f"{path}, {where}: this is no annotated image of Label Studio ({error!r}); export it as JSON."
            ) from None
    return found


def _image_name(data: dict[str, Any]) -> str:
    """Of an upload («/data/upload/1/1f2e3d4c-a.png»), a local file («…?d=folder/a.png») or an address."""
    url = str(data.get(_IMAGE) or next(value for value in data.values() if isinstance(value, str)))
    parts = urlsplit(url)
    local = parse_qs(parts.query).get("d")
    name = PurePosixPath(unquote(local[0] if local else parts.path)).name
    head, dash, rest = name.partition("-")
    uploaded = "/data/upload/" in parts.path and dash and len(head) == 8
    return rest if uploaded else name


def _annotated(place: Place, name: str, annotation: dict[str, Any]) -> AnnotatedImage:
    by_region: dict[str, list[dict[str, Any]]] = {}
    for result in annotation["result"]:
        by_region.setdefault(str(result.get("id")), []).append(result)
    shapes: list[Shape] = []
    size = 0, 0
    decided = [r for r in annotation["result"] if r.get("from_name") == _LABEL_DECISION]
    for results in by_region.values():
        size = max([size, *((int(r.get("original_width", 0)), int(r.get("original_height", 0))) for r in results)])
        shapes += _shapes(place, [r for r in results if r not in decided])
    for result in decided:
        own = {DECISION: str(result["value"][_LABEL][0])}
        shapes = [replace(shape, notes={**shape.notes, **own}) if shape.is_label else shape for shape in shapes]
    by = annotation.get("completed_by")
    person = by.get("id") if isinstance(by, dict) else by
    date = str(annotation.get("updated_at") or annotation.get("created_at") or "")[:10]
    return AnnotatedImage(name, 0, size, tuple(shapes), "" if person is None else f"user-{person}", date)


def _shapes(place: Place, results: list[dict[str, Any]]) -> list[Shape]:
    """All results of one region: its shape, and what was chosen for it."""
    drawn = [r for r in results if r["type"] not in (_LABEL, "textarea")]
    notes: dict[str, str] = {}
    for result in results:
        notes |= notes_of(" ".join((result.get("meta") or {}).get("text") or []))
        if result.get("from_name") == DECISION:
            notes[DECISION] = str(result["value"][_LABEL][0])
    if not drawn:
        return [
            Shape(category_of(str(name)), notes=notes)
            for result in results
            if result["type"] == _LABEL and result.get("from_name") != DECISION
            for name in result["value"][_LABEL]
        ]
    return [_shape(place, result, notes) for result in drawn]


def _shape(place: Place, result: dict[str, Any], notes: dict[str, str]) -> Shape:
    kind, value = str(result["type"]), result["value"]
    if kind not in (_BOX, _OUTLINE):
        raise place.unknown_kind(kind)
    category = category_of(str(value[kind][0]))
    place.upright(value.get("rotation"))
    scale_x, scale_y = (int(result[f"original_{side}"]) / 100 for side in ("width", "height"))
    if kind == _OUTLINE:
        points = [place.numbers(*point) for point in value["points"]]
        scaled = [(x * scale_x, y * scale_y) for x, y in points]
        return Shape(category, outline=place.outline(scaled), notes=notes)
    x, y, w, h = place.numbers(*(value[side] for side in ("x", "y", "width", "height")))
    corners = (x * scale_x, y * scale_y, (x + w) * scale_x, (y + h) * scale_y)
    return Shape(category, place.box(*corners), notes=notes)


def write(out: Path, tasks: TaskSet) -> list[Path]:
    """tasks.json to import, and the configuration of the project."""
    paths = [out / "tasks.json", out / "labeling_config.xml"]
    document = []
    for task in tasks.tasks:
        results = [r for n, shape in enumerate(task.shapes) for r in _results(f"{n}", shape, task.size, tasks.decides)]
        predictions = [{"model_version": "panendofm", "result": results}] if results else []
        document.append({"data": {_IMAGE: tasks.image_url + task.file}, "predictions": predictions})
    write_json(paths[0], document)
    write_text(paths[1], _configuration(tasks))
    return paths


def _results(number: str, shape: Shape, size: tuple[int, int], decides: bool) -> list[dict[str, Any]]:
    values: list[tuple[str, str, dict[str, Any]]] = []
    if shape.box is not None:
        values.append((_BOX, _BOXES, _percent(shape.box, size)))
    for points in shape.outlines():
        percent = [[100 * x / size[0], 100 * y / size[1]] for x, y in points]
        values.append((_OUTLINE, _OUTLINES, {"points": percent}))
    if shape.is_label:
        values.append((_LABEL, _LABELS, {}))
    found = []
    for part, (kind, control, value) in enumerate(values):
        region = {
            "id": f"{shape.notes.get(SERIAL, 'shape')}-{number}-{part}",
            "to_name": _IMAGE,
            "original_width": size[0],
            "original_height": size[1],
        }
        meta = {"meta": {"text": [notes_text({k: v for k, v in shape.notes.items() if k == SERIAL})]}}
        labeled = {**value, kind: [shape.label]}
        found.append({**region, **meta, "type": kind, "from_name": control, "value": labeled})
        if decides and shape.notes.get(DECISION, UNDECIDED) != UNDECIDED:
            decided = {**value, _LABEL: [shape.notes[DECISION]]}
            found.append({**region, "type": _LABEL, "from_name": DECISION, "value": decided})
    return found


def _percent(box: Box, size: tuple[int, int]) -> dict[str, float]:
    x, y, w, h = box
    shares = {"x": x / size[0], "y": y / size[1], "width": w / size[0], "height": h / size[1]}
    return {"rotation": 0, **{name: 100 * share for name, share in shares.items()}}


def _configuration(tasks: TaskSet) -> str:
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name=_IMAGE, value=f"${_IMAGE}")
    drawn = [name for name in tasks.labels if name != NOTHING]
    for tag, name in (("RectangleLabels", _BOXES), ("PolygonLabels", _OUTLINES)):
        control = ElementTree.SubElement(view, tag, name=name, toName=_IMAGE)
        for label in drawn:
            ElementTree.SubElement(control, "Label", value=label)
    whole = ElementTree.SubElement(view, "Choices", name=_LABELS, toName=_IMAGE, choice="single")
    for label in tasks.labels:
        ElementTree.SubElement(whole, "Choice", value=label)
    if tasks.decides:
        choice = {"name": DECISION, "toName": _IMAGE, "choice": "single", "perRegion": "true"}
        of_label = {"name": _LABEL_DECISION, "toName": _IMAGE, "choice": "single"}
        for attributes in (choice, of_label):
            control = ElementTree.SubElement(view, "Choices", attributes)
            for decision in DECISIONS:
                ElementTree.SubElement(control, "Choice", value=decision)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"
