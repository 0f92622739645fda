"""Boxes, masks and points as JSON or XML: predictions.json and predictions.xml, format 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from panendofm.challenge.files.finding_model import Finding, FindingsFile, Frame, Kind, Role, check_box
from panendofm.challenge.files.names import Key, Match, image_name
from panendofm.challenge.files.traits import TRAIT_COLUMNS
from panendofm.challenge.files.xml_document import read_xml_document
from panendofm.records.documents import parse_document, read_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object
from panendofm.runtime.names import hint

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Pixels = Annotated[int, Field(gt=0)]
_Name = str | int | None


@dataclass(frozen=True)
class _Result:
    category: str
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    box: tuple[_Finite, _Finite, _Finite, _Finite] | None = None
    mask: str | None = None
    point: tuple[_Finite, _Finite] | None = None
    object: _Name = None
    histology: _Name = None
    size_mm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


@dataclass(frozen=True)
class _Entry:
    file: Annotated[str, Field(min_length=1)]
    frame: Annotated[int, Field(ge=0)] = 0
    format: str | None = None
    width: _Pixels | None = None
    height: _Pixels | None = None
    time_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    results: list[_Result] = field(default_factory=list)
    group: _Name = None
    patient: _Name = None
    center: _Name = None
    centre: _Name = None  # the old name of `center`
    device: _Name = None
    hospital: _Name = None
    sex: _Name = None
    age: Annotated[float, Field(ge=0, le=120)] | None = None
    ethnicity: _Name = None
    organ: _Name = None


@dataclass(frozen=True)
class _Task:
    type: str
    classes: list[str]
    id: _Name = None
    name: _Name = None


@dataclass(frozen=True)
class _Predictions:
    format: Literal[1]
    task: _Task
    data: Annotated[list[_Entry], Field(min_length=1)]


def document_task_type(path: Path) -> Any:
    task = (read_xml_document(path) if _is_xml(path) else read_json_object(path)).get("task")
    return task.get("type") if isinstance(task, dict) else None


def _is_xml(path: Path) -> bool:
    return path.suffix.lower() == ".xml"


def read_document_findings(path: Path, role: Role, kind: Kind, match: Match) -> FindingsFile:
    if _is_xml(path):
        document = parse_document(_Predictions, read_xml_document(path), path, "a file of predictions")
    else:
        document = read_document(_Predictions, path, "a file of predictions")
    if document.task.type != kind:
        raise UserError(f"{path}: its task is {document.task.type!r}, the truth's is {kind}; compare like with like.")
    file = FindingsFile(path, kind, {}, tuple(document.task.classes), declared=True)
    for position, entry in enumerate(document.data, 1):
        key, frame = _frame(file, position, entry, role, match)
        if key in file.frames:
            raise file.fail(position, f"{frame.file}, frame {frame.frame}, is there twice; join the entries.")
        file.frames[key] = frame
    return file


def _frame(file: FindingsFile, position: int, entry: _Entry, role: Role, match: Match) -> tuple[Key, Frame]:
    suffix = Path(entry.file).suffix.lower().lstrip(".")
    if entry.format is not None and _type(entry.format) != _type(suffix):
        raise file.fail(position, f"'format' is {entry.format!r} and the file ends in '{suffix}'; correct one of them.")
    if (entry.width is None) != (entry.height is None):
        raise file.fail(position, "width or height is missing; give both or none.")
    frame = Frame(
        file=entry.file,
        frame=entry.frame,
        line=position,
        findings=tuple(_finding(file, position, result, role) for result in entry.results),
        size=(entry.width, entry.height) if entry.width and entry.height else None,
        group=str(entry.group or ""),
        patient=str(entry.patient or ""),
        center=str(entry.center or entry.centre or ""),
        time_ms=entry.time_ms,
        traits=tuple((name, _text(value)) for name in TRAIT_COLUMNS if (value := getattr(entry, name)) is not None),
    )
    return (image_name(entry.file, match), entry.frame), frame


def _text(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _type(suffix: str) -> str:
    return {"jpeg": "jpg", "tiff": "tif"}.get(suffix.lower(), suffix.lower())


def _finding(file: FindingsFile, position: int, result: _Result, role: Role) -> Finding:
    if result.category not in file.classes:
        raise file.fail(position, f"unknown category '{result.category}'; {hint(result.category, file.classes)}")
    is_box = file.kind == "detection"
    if file.kind == "localization":
        if result.point is None:
            raise file.fail(position, "a result of localization has no 'point' [x, y]; give one.")
        confidence = 1.0 if result.confidence is None else result.confidence
        return Finding(position, result.category, confidence, point=result.point)
    if is_box and result.confidence is None and role == "prediction":
        raise file.fail(position, "a predicted box has no 'confidence'; give a probability.")
    if is_box and result.box is None:
        raise file.fail(position, "a result of detection has no 'box' [x, y, w, h]; give one.")
    if not is_box and not result.mask:
        raise file.fail(position, "a result of segmentation has no 'mask'; name the file.")
    if result.box is not None:
        check_box(lambda what: file.fail(position, what), result.box)
    return Finding(
        line=position,
        category=result.category,
        confidence=1.0 if result.confidence is None else result.confidence,
        box=result.box if is_box else None,
        mask=file.path.parent / str(result.mask) if not is_box else None,
        object=str(result.object or ""),
        histology=str(result.histology or ""),
        size_mm=result.size_mm,
    )
