"""Boxes and masks as JSON: predictions.json, format 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from panendofm.challenge.files.finding_model import Finding, FindingsFile, Frame, Kind, Role, check_box
from panendofm.challenge.files.names import Key, Match, image_name
from panendofm.challenge.files.text_table import nearest
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json

FORMAT = 1


def json_task_type(path: Path) -> Any:
    task = _object(path, read_json(path), "the file").get("task")
    return task.get("type") if isinstance(task, dict) else None


def _object(path: Path, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{path}: {what} must be a JSON object; write it as the documentation shows.")
    return value


def read_json_findings(path: Path, role: Role, kind: Kind, match: Match) -> FindingsFile:
    document = _object(path, read_json(path), "the file")
    if document.get("format") != FORMAT:
        raise UserError(
            f"{path}: 'format' is {document.get('format')!r}, this program reads {FORMAT}; convert the file."
        )
    task = _object(path, document.get("task"), "'task'")
    if task.get("type") != kind:
        raise UserError(f"{path}: its task is {task.get('type')!r}, the truth's is {kind}; compare like with like.")
    classes, data = task.get("classes"), document.get("data")
    if (
        not isinstance(classes, list)
        or not all(isinstance(name, str) for name in classes)
        or not isinstance(data, list)
    ):
        raise UserError(f"{path}: 'task.classes' must list names and 'data' the images; write both.")
    file = FindingsFile(path, kind, {}, tuple(classes), declared=True)
    for position, entry in enumerate(data, 1):
        key, frame = _json_frame(file, position, entry, role, match)
        if key in file.frames:
            raise file.fail(position, f"{frame.file}, frame {frame.frame}, is there twice; join the entries.")
        file.frames[key] = frame
    if not file.frames:
        raise UserError(f"{path}: 'data' is empty; write one entry for each image.")
    return file


def _json_frame(file: FindingsFile, position: int, entry: Any, role: Role, match: Match) -> tuple[Key, Frame]:
    def fail(what: str) -> UserError:
        return file.fail(position, what)

    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str) or not entry["file"]:
        raise fail("the key 'file' is missing; name the image.")
    frame = entry.get("frame", 0)
    if not isinstance(frame, int) or isinstance(frame, bool) or frame < 0:
        raise fail(f"the frame {frame!r} is no whole number of 0 or more.")
    suffix, said = Path(entry["file"]).suffix.lower().lstrip("."), entry.get("format")
    if said is not None and _type(said) != _type(suffix):
        raise fail(f"'format' is {said!r} and the file ends in '{suffix}'; correct one of them.")
    size = None
    if "width" in entry or "height" in entry:
        size = (_positive(fail, entry.get("width"), "width"), _positive(fail, entry.get("height"), "height"))
    time = entry.get("time_ms")
    if time is not None and (not _is_number(time) or time <= 0):
        raise fail(f"the time {time!r} is not above 0; write the time that the image took.")
    results = entry.get("results", [])
    if not isinstance(results, list):
        raise fail("'results' must be a list.")
    findings = tuple(_json_finding(file, position, result, role) for result in results)
    entry.setdefault("center", entry.get("centre"))  # the key's old name
    group, patient, center = (str(entry.get(name) or "") for name in ("group", "patient", "center"))
    shape = Frame(entry["file"], frame, position, findings, size, group, patient, center, time)
    return (image_name(entry["file"], match), frame), shape


def _type(suffix: str) -> str:
    return {"jpeg": "jpg", "tiff": "tif"}.get(str(suffix).lower(), str(suffix).lower())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")


def _positive(fail: Callable[[str], UserError], value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise fail(f"the {what} {value!r} is no whole number above 0.")
    return value


def _json_finding(file: FindingsFile, position: int, result: Any, role: Role) -> Finding:
    def fail(what: str) -> UserError:
        return file.fail(position, what)

    if not isinstance(result, dict) or not isinstance(result.get("category"), str):
        raise fail("a result has no 'category'; name it.")
    category = result["category"]
    if category not in file.classes:
        raise fail(f"unknown category '{category}'; {nearest(category, file.classes)}")
    finding = Finding(
        position, category, object=str(result.get("object") or ""), histology=str(result.get("histology") or "")
    )
    sure = result.get("confidence")
    if sure is not None or (role == "prediction" and file.kind == "detection"):
        if sure is None or not _is_number(sure) or not 0 <= sure <= 1:
            raise fail(f"the confidence {sure!r} lies outside 0 to 1; give a probability.")
        finding = replace(finding, confidence=float(sure))
    if file.kind == "detection":
        box = result.get("box")
        if not isinstance(box, list) or len(box) != 4 or not all(_is_number(v) for v in box):
            raise fail(f"the box {box!r} is not [x, y, w, h] of finite numbers.")
        x, y, w, h = (float(v) for v in box)
        check_box(fail, (x, y, w, h))
        return replace(finding, box=(x, y, w, h))
    mask = result.get("mask")
    if not isinstance(mask, str) or not mask:
        raise fail("a result of segmentation has no 'mask'; name the file.")
    return replace(finding, mask=file.path.parent / mask)
