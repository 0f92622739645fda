"""The verb `convert`: Pascal VOC, COCO and YOLO files ↔ our detections.csv and predictions.json."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from panendofm.challenge.config import ConvertConfig
from panendofm.challenge.files.finding_model import Box, Finding, Frame
from panendofm.challenge.files.findings import answer_columns, read_findings
from panendofm.challenge.files.text_table import read_utf8
from panendofm.challenge.files.xml_document import read_xml, xml_text
from panendofm.imaging.images import is_image, open_image
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text, exact
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json, write_json, write_text
from panendofm.runtime.names import printable

_YOLO_CLASSES = "classes.txt"
_ROUNDING_PX = 1.0  # VOC counts pixels from 1, YOLO rounds shares
_MOST_PX = 1_000_000


def convert(source: Path, config: ConvertConfig) -> None:
    """Read boxes of one format and write another."""
    frames = _READERS[config.source_format](source, config)
    if not frames:
        raise UserError(
            f"{source}: nothing to convert was found there; check the path and source_format={config.source_format}."
        )
    names = config.classes or sorted({finding.category for frame in frames for finding in frame.findings})
    _refuse_faults(source, frames, names)
    _WRITERS[config.target_format](Path(config.out), frames, names)
    boxes = sum(len(frame.findings) for frame in frames)
    formats = f"{source} ({config.source_format}) → {config.out} ({config.target_format})"
    say(f"{len(frames)} frames, {boxes} boxes: {formats}")


def _refuse_faults(source: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    """What no format can hold, or what another frame would overwrite; before anything is written."""
    seen = set()
    for frame in frames:
        if (frame.file, frame.frame) in seen:
            raise UserError(f"{source}: {printable(frame.file)} is there twice; keep one of them.")
        seen.add((frame.file, frame.frame))
        if frame.size is not None and min(frame.size) < 1:
            raise UserError(f"{source}: {printable(frame.file)} has the size {frame.size}; correct it.")
        for finding in frame.findings:
            where = f"{source}: {printable(frame.file)}, box {finding.line}"
            if finding.category not in names:
                raise UserError(f"{where}: its class '{printable(finding.category)}' is not in classes; add it there.")
            _refuse_box(where, frame, finding)


def _refuse_box(where: str, frame: Frame, finding: Finding) -> None:
    x, y, w, h = finding.box or (0.0, 0.0, 0.0, 0.0)
    if not all(math.isfinite(value) for value in (x, y, w, h, finding.confidence)) or w <= 0 or h <= 0:
        raise UserError(f"{where}: the box {x:g} {y:g} {w:g} {h:g} has no size, or a value that is no number.")
    if frame.size is None:
        return
    width, height = frame.size
    if min(x, y) < -_ROUNDING_PX or x + w > width + _ROUNDING_PX or y + h > height + _ROUNDING_PX:
        raise UserError(f"{where}: it leaves the image of {width} × {height} pixels; correct the box or the size.")


def _read_own(source: Path, config: ConvertConfig) -> list[Frame]:
    return list(read_findings(source, "truth", "detection").frames.values())


def _files(source: Path, suffixes: Sequence[str]) -> list[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise UserError(f"cannot read {source}: there is no such file or folder; check the path.")
    return sorted(p for p in source.rglob("*") if p.suffix.lower() in suffixes)


def _read_voc(source: Path, config: ConvertConfig) -> list[Frame]:
    """Pascal VOC: .xml files, or .txt files of EndoCV (class [confidence] x1 y1 x2 y2)."""
    frames = []
    for path in _files(source, (".xml", ".txt")):
        frames.append(_voc_xml(path) if path.suffix.lower() == ".xml" else _voc_text(path))
    return frames


def _voc_xml(path: Path) -> Frame:
    root = read_xml(path, "annotation")
    size = root.find("size")
    shape = None
    if size is not None:
        shape = (_pixels(path, size.findtext("width")), _pixels(path, size.findtext("height")))
    findings = []
    for number, item in enumerate(root.iter("object"), 1):
        corners = item.find("bndbox")
        if corners is None:
            raise UserError(f"{path}: object {number} has no bndbox; correct the file.")
        x1, y1, x2, y2 = (_float(path, corners.findtext(n)) for n in ("xmin", "ymin", "xmax", "ymax"))
        name = (item.findtext("name") or "").strip()
        findings.append(Finding(number, name, box=_corners(path, number, x1, y1, x2, y2)))
    return Frame(root.findtext("filename") or f"{path.stem}.jpg", 0, 1, tuple(findings), shape)


def _float(path: Path, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise UserError(f"{path}: '{text}' is no number; correct the file.") from None


def _pixels(path: Path, text: str | None) -> int:
    value = _float(path, text)
    if not 1 <= value <= _MOST_PX:
        raise UserError(f"{path}: '{text}' is no size of an image; correct the file.")
    return int(value)


def _corners(path: Path, line: int, x1: float, y1: float, x2: float, y2: float) -> Box:
    if not (x2 > x1 and y2 > y1):  # NaN is neither
        raise UserError(f"{path}, line {line}: the corners {x1:g} {y1:g} {x2:g} {y2:g} make no box; correct them.")
    return x1, y1, x2 - x1, y2 - y1


def _voc_text(path: Path) -> Frame:
    findings = []
    for number, line in enumerate(read_utf8(path).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) not in (5, 6):
            raise UserError(f"{path}, line {number}: it has {len(words)} words, not class [confidence] x1 y1 x2 y2.")
        sure = _float(path, words[1]) if len(words) == 6 else 1.0
        x1, y1, x2, y2 = (_float(path, word) for word in words[-4:])
        findings.append(Finding(number, words[0], sure, _corners(path, number, x1, y1, x2, y2)))
    return Frame(f"{path.stem}.jpg", 0, 1, tuple(findings))


def _read_coco(source: Path, config: ConvertConfig) -> list[Frame]:
    document: Any = read_json(source)
    if not isinstance(document, dict) or not {"images", "annotations", "categories"} <= set(document):
        raise UserError(f"{source}: a COCO file has images, annotations and categories; check the file.")
    try:
        for part in ("images", "categories", "annotations"):
            ids = [entry["id"] for entry in document[part] if part != "annotations" or "id" in entry]
            if len(set(ids)) < len(ids):
                raise UserError(f"{source}: two {part} have one id; give each its own.")
        names = {c["id"]: str(c["name"]) for c in document["categories"]}
        found: dict[Any, list[Finding]] = defaultdict(list)
        known = {image["id"] for image in document["images"]}
        for number, a in enumerate(document["annotations"], 1):
            if a["image_id"] not in known:
                raise UserError(f"{source}: annotation {number} is of the unknown image {a['image_id']}; correct it.")
            x, y, w, h = (float(v) for v in a["bbox"])
            found[a["image_id"]].append(
                Finding(number, names[a["category_id"]], float(a.get("score", 1.0)), (x, y, w, h))
            )
        return [
            Frame(
                str(image["file_name"]),
                0,
                1,
                tuple(found[image["id"]]),
                (int(image["width"]), int(image["height"])) if "width" in image and "height" in image else None,
            )
            for image in document["images"]
        ]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise UserError(f"{source}: this is no COCO file of boxes ({error!r}); check it.") from None


def _read_yolo(source: Path, config: ConvertConfig) -> list[Frame]:
    """One .txt an image: class cx cy w h [confidence], shares of the image; so the images are needed."""
    if config.images is None or not Path(config.images).is_dir():
        raise UserError("YOLO files hold shares of the image: name the folder of the images with images=….")
    if not config.classes:
        raise UserError("YOLO files hold class numbers: name the classes in their order with classes=[…].")
    images = Path(config.images)
    classes = config.classes
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for found in sorted(images.rglob("*")):
        if is_image(found):
            by_stem[found.stem].append(found)
    frames = []
    for path in _files(source, (".txt",)):
        if len(by_stem[path.stem]) != 1:
            count = len(by_stem[path.stem])
            raise UserError(
                f"{path}: there are {count} images {path.stem} in {images}, not one; name the right folder."
            )
        image = by_stem[path.stem][0]
        width, height = open_image(image).size
        findings = []
        for number, line in enumerate(read_utf8(path).splitlines(), 1):
            words = line.split()
            if not words:
                continue
            if len(words) not in (5, 6) or not words[0].isdecimal() or int(words[0]) >= len(classes):
                raise UserError(f"{path}, line {number}: it is not class cx cy w h with a class below {len(classes)}.")
            cx, cy, w, h = (_float(path, word) for word in words[1:5])
            box = ((cx - w / 2) * width, (cy - h / 2) * height, w * width, h * height)
            sure = _float(path, words[5]) if len(words) == 6 else 1.0
            findings.append(Finding(number, classes[int(words[0])], sure, box))
        frames.append(Frame(image.name, 0, 1, tuple(findings), (width, height)))
    return frames


def _write_csv(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    rows: list[list[object]] = []
    for frame in frames:
        for f in frame.findings:
            rows.append([frame.file, frame.frame, f.category, f"{f.confidence:g}", *(exact(v) for v in f.box or ())])
        if not frame.findings:
            rows.append([frame.file, frame.frame, "", "", "", "", "", ""])
    write_text(out, csv_text(answer_columns("detection"), rows))


def _write_json(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    write_text(out, json.dumps(_as_json(frames, names), indent=1, ensure_ascii=False) + "\n")


def _write_xml(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    write_text(out, xml_text(_as_json(frames, names)))


def _write_coco(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    write_json(out, _as_coco(frames, names))


def _write_yolo(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    texts = {_YOLO_CLASSES: "".join(f"{name}\n" for name in names)}
    for frame in frames:
        if frame.size is None:
            raise UserError(f"{frame.file}: YOLO needs the image's size, which the source does not say.")
        name = f"{Path(frame.file).stem}.txt"
        if name in texts:
            raise UserError(
                f"{printable(frame.file)}: YOLO names files by the bare name of the image, and {name} is "
                "taken; rename the image, or convert to another format."
            )
        texts[name] = "".join(_yolo_lines(frame, frame.size, names))
    make_directory(out)
    for name, text in texts.items():
        write_text(out / name, text)


def _yolo_lines(frame: Frame, size: tuple[int, int], names: Sequence[str]) -> list[str]:
    lines = []
    for f in frame.findings:
        assert f.box is not None
        x, y, w, h = f.box
        shares = ((x + w / 2) / size[0], (y + h / 2) / size[1], w / size[0], h / size[1])
        lines.append(f"{names.index(f.category)} {' '.join(map(exact, shares))}\n")
    return lines


def _as_json(frames: Sequence[Frame], names: Sequence[str]) -> dict[str, Any]:
    data = []
    for frame in frames:
        entry: dict[str, Any] = {"file": frame.file, "frame": frame.frame}
        if frame.size is not None:
            entry |= {"width": frame.size[0], "height": frame.size[1]}
        entry["results"] = [
            {"category": f.category, "confidence": f.confidence, "box": list(f.box or ())} for f in frame.findings
        ]
        data.append(entry)
    return {"format": 1, "task": {"type": "detection", "classes": list(names)}, "data": data}


def _as_coco(frames: Sequence[Frame], names: Sequence[str]) -> dict[str, Any]:
    annotations: list[dict[str, Any]] = []
    for number, frame in enumerate(frames, 1):
        for f in frame.findings:
            x, y, w, h = f.box or (0.0, 0.0, 0.0, 0.0)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": names.index(f.category) + 1,
                    "bbox": [x, y, w, h],
                    "area": w * h,
                    "iscrowd": 0,
                    "score": f.confidence,
                }
            )
    sizes = [{} if f.size is None else {"width": f.size[0], "height": f.size[1]} for f in frames]
    return {
        "images": [{"id": i, "file_name": f.file, **s} for i, (f, s) in enumerate(zip(frames, sizes, strict=True), 1)],
        "annotations": annotations,
        "categories": [{"id": i, "name": name} for i, name in enumerate(names, 1)],
    }


_READERS = {
    "voc": _read_voc,
    "coco": _read_coco,
    "yolo": _read_yolo,
    "csv": _read_own,
    "json": _read_own,
    "xml": _read_own,
}
_WRITERS = {"csv": _write_csv, "json": _write_json, "xml": _write_xml, "coco": _write_coco, "yolo": _write_yolo}
