"""Boxes and masks in files: truth and predictions, as CSV or JSON, checked line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from panendofm.challenge.files.finding_model import Finding, FindingsFile, Frame, Kind, Role, TaskKind, check_box
from panendofm.challenge.files.findings_json import document_task_type, read_document_findings
from panendofm.challenge.files.names import Key, Match, image_name, resolve, some
from panendofm.challenge.files.text_table import Row, read_table
from panendofm.challenge.files.traits import SIZE_COLUMN, TRAIT_COLUMNS, row_size_mm, row_traits
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint

OUTSIDE_PX = 1.0
COMMON = ("file", "frame", "category", "confidence", "time_ms")
PLACES: dict[Kind, tuple[str, ...]] = {
    "detection": ("x", "y", "w", "h"),
    "segmentation": ("mask", "polygon"),
    "localization": ("x", "y"),
}
# The columns by which a kind is known, in this order: a point is what has a place and no extent.
_SIGNS: dict[Kind, tuple[str, ...]] = {
    "detection": ("w", "h"),
    "segmentation": ("mask", "polygon"),
    "localization": ("x", "y"),
}
_OF_DOCUMENTS = (".json", ".xml")
OF_TRUTH = (
    *("group", "patient", "center", "object", "histology", "width", "height"),
    *(*TRAIT_COLUMNS, SIZE_COLUMN),
)


def answer_columns(kind: TaskKind) -> tuple[str, ...]:
    """Of a submission in CSV."""
    if kind == "classification":
        return ("file", "frame", "category", "confidence")
    confidence = () if kind == "segmentation" else ("confidence",)
    return ("file", "frame", "category", *confidence, *PLACES[kind])


def kind_of(path: Path, separator: str = ",") -> TaskKind:
    """Boxes, masks, points or labels: by the header, or by what a JSON or XML file says of its task."""
    if path.suffix.lower() in _OF_DOCUMENTS:
        said = document_task_type(path)
        return next((kind for kind in PLACES if kind == said), "classification")
    with_header = read_table(path, separator, ("file",), _EVERYTHING).header or ()
    for kind, names in _SIGNS.items():
        if any(name in with_header for name in names):
            return kind
    return "classification"


_EVERYTHING = (*COMMON, *PLACES["detection"], *PLACES["segmentation"], *OF_TRUTH, "label", "time_s", "split")


def read_findings(path: Path, role: Role, kind: Kind, separator: str = ",", match: Match = "stem") -> FindingsFile:
    if path.suffix.lower() in _OF_DOCUMENTS:
        return read_document_findings(path, role, kind, match)
    known = (*COMMON, *PLACES[kind], *(OF_TRUTH if role == "truth" else ()))
    table = read_table(path, separator, ("file",), known)
    needed = ("file", "category", *(("mask",) if kind == "segmentation" else PLACES[kind]))
    needed = (*needed, "confidence") if role == "prediction" and kind == "detection" else needed
    for name in needed:
        if not table.has(name):
            raise table.fail(f"the column '{name}' is missing; {kind} has {','.join(known[:9])}.")
    frames: dict[Key, Frame] = {}
    empty_at: dict[Key, int] = {}
    for row in table.rows:
        key, frame = _frame(row, match)
        finding = _finding(row, role, kind)
        known_frame = frames.get(key)
        if known_frame is not None:
            _check_repeated(row, known_frame, frame, finding, empty_at.get(key))
        if finding is None:
            empty_at[key] = row.line
        found = (finding,) if finding is not None else ()
        frames[key] = replace(known_frame or frame, findings=(*(known_frame.findings if known_frame else ()), *found))
    names = tuple(sorted({f.category for frame in frames.values() for f in frame.findings}))
    return FindingsFile(path, kind, frames, names)


def _frame(row: Row, match: Match) -> tuple[Key, Frame]:
    file = row.text("file")
    if not file:
        raise row.fail("the file's name is empty; name the image.")
    size = None
    if row.text("width") or row.text("height"):
        size = (row.whole_number("width", "the image's size"), row.whole_number("height", "the image's size"))
    frame = Frame(
        file=file,
        frame=row.frame(),
        line=row.line,
        findings=(),
        size=size,
        group=row.text("group"),
        patient=row.text("patient"),
        center=row.text("center"),
        time_ms=row.milliseconds("ms") if row.text("time_ms") else None,
        traits=row_traits(row),
    )
    return (image_name(file, match), frame.frame), frame


def _check_repeated(row: Row, before: Frame, now: Frame, finding: Finding | None, empty_line: int | None) -> None:
    """Rows of one frame must not contradict each other."""
    if finding is None or empty_line is not None:
        raise row.fail(
            f"{now.file}, frame {now.frame}, has a row without a finding and other rows (line {before.line}); "
            "keep one or the other.",
        )
    for name in ("group", "patient", "center", "size", "file", "time_ms", "traits"):
        if getattr(before, name) != getattr(now, name):
            raise row.fail(f"the {name} of {now.file} differs from line {before.line}; give it one.")


def _finding(row: Row, role: Role, kind: Kind) -> Finding | None:
    category = row.text("category")
    if not category:
        filled = next((name for name in (*PLACES[kind], "confidence", SIZE_COLUMN) if row.text(name)), None)
        if filled:
            raise row.fail(f"there is a value in '{filled}' and no category; name the category.")
        return None
    finding = Finding(
        row.line,
        category,
        object=row.text("object"),
        histology=row.text("histology"),
        size_mm=row_size_mm(row),
    )
    if row.text("confidence") or (role == "prediction" and kind == "detection"):
        finding = replace(finding, confidence=row.confidence())
    if kind == "localization":
        x, y = (row.number(name, f"the point's {name}") for name in PLACES["localization"])
        return replace(finding, point=(x, y))
    if kind == "detection":
        x, y, w, h = (row.number(name, f"the box's {name}") for name in PLACES["detection"])
        check_box(row.fail, (x, y, w, h))
        return replace(finding, box=(x, y, w, h))
    if bool(row.text("mask")) == bool(row.text("polygon")):
        raise row.fail("give either a mask or a polygon.")
    if row.text("mask"):
        return replace(finding, mask=row.path.parent / row.text("mask"))
    points = tuple(row.parse_number(word, "the polygon's point") for word in row.text("polygon").split())
    if len(points) < 6 or len(points) % 2:
        raise row.fail("a polygon has three points or more, x1 y1 x2 y2 …")
    return replace(finding, polygon=points)


def aligned(truth: FindingsFile, prediction: FindingsFile, match: Match, classes: Sequence[str]) -> dict[Key, Frame]:
    """The prediction's frames under the truth's keys; refused unless both are about the same frames and classes."""
    if prediction.declared and set(prediction.classes) != set(classes):
        odd = sorted(set(prediction.classes) ^ set(classes))[0]
        raise UserError(
            f"{prediction.path}: its classes ({', '.join(prediction.classes)}) are not the truth's "
            f"({', '.join(classes)}); '{odd}' is on one side only."
        )
    names = {name: None for name, _ in truth.frames}
    last: dict[str, int] = {}
    for name, place in truth.frames:
        last[name] = max(place, last.get(name, 0))
    result: dict[Key, Frame] = {}
    for (name, place), frame in prediction.frames.items():
        key = (resolve(name, names, match) or name, place)
        if key not in truth.frames:
            known = key[0] in names
            beyond = known and place > last[key[0]]
            what = (
                f"frame {place} of {frame.file} lies beyond the last one, {last[key[0]]}"
                if beyond
                else f"frame {place} of {frame.file} is not in the truth"
                if known
                else f"{frame.file} is not in the truth"
            )
            raise prediction.fail(frame.line, f"{what} {truth.path}; remove it, or check the names.")
        for finding in frame.findings:
            if finding.category not in classes:
                raise prediction.fail(
                    finding.line, f"unknown category '{finding.category}'; {hint(finding.category, classes)}"
                )
        _check_inside(prediction, frame, truth.frames[key].size or frame.size)
        result[key] = frame
    absent = [f"{f.file}, frame {f.frame}" for key, f in truth.frames.items() if key not in result]
    if absent:
        raise UserError(
            f"{prediction.path}: no row for {some(absent)}; write a row for every frame, with an empty category where "
            "nothing was found."
        )
    return result


def _check_inside(file: FindingsFile, frame: Frame, size: tuple[int, int] | None) -> None:
    if size is None:
        return
    for finding in frame.findings:
        x, y = finding.point or (0.0, 0.0)
        if min(x, y) < -OUTSIDE_PX or x > size[0] + OUTSIDE_PX or y > size[1] + OUTSIDE_PX:
            raise file.fail(finding.line, f"the point ({x:g}, {y:g}) lies outside the image of {size[0]} × {size[1]}.")
        if finding.box is not None:
            x, y, w, h = finding.box
            if min(x, y) < -OUTSIDE_PX or x + w > size[0] + OUTSIDE_PX or y + h > size[1] + OUTSIDE_PX:
                raise file.fail(
                    finding.line,
                    f"the box [{x:g}, {y:g}, {w:g}, {h:g}] lies outside the image of {size[0]} × {size[1]}; "
                    "boxes are x, y of the top left corner, width and height, in pixels of the original image.",
                )
