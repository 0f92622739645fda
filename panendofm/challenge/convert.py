"""The verb `convert`: Pascal VOC, COCO and YOLO files ↔ our detections.csv and predictions.json."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from panendofm.challenge.config import ConvertConfig
from panendofm.challenge.files.finding_model import Box, Finding, Frame
from panendofm.challenge.files.findings import read_findings
from panendofm.challenge.files.text_table import read_utf8
from panendofm.imaging.images import is_image, open_image
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text, exact
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json, write_json, write_text


def main(arguments: argparse.Namespace, config: ConvertConfig) -> None:
    convert(Path(arguments.source), config)


def convert(source: Path, config: ConvertConfig) -> int:
    """Read boxes of one format and write another; returns the number of boxes."""
    frames = _READERS[config.source_format](source, config)
    if not frames:
        raise UserError(
            f"{source}: nothing to convert was found there; check the path and source_format={config.source_format}."
        )
    names = config.classes or sorted({finding.category for frame in frames for finding in frame.findings})
    _WRITERS[config.target_format](Path(config.out), frames, names)
    boxes = sum(len(frame.findings) for frame in frames)
    formats = f"{source} ({config.source_format}) → {config.out} ({config.target_format})"
    say(f"{len(frames)} frames, {boxes} boxes: {formats}")
    return boxes


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
    try:
        root = ElementTree.fromstring(read_utf8(path))
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: this is not valid XML ({error}); replace the file.") from None
    size = root.find("size")
    shape = None
    if size is not None:
        shape = (int(_float(path, size.findtext("width"))), int(_float(path, size.findtext("height"))))
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


def _corners(path: Path, line: int, x1: float, y1: float, x2: float, y2: float) -> Box:
    if x2 <= x1 or y2 <= y1:
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
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{source}: this is no COCO file of boxes ({error!r}); check it.") from None


def _read_yolo(source: Path, config: ConvertConfig) -> list[Frame]:
    """One .txt an image: class cx cy w h [confidence], shares of the image; so the images are needed."""
    if config.images is None or not Path(config.images).is_dir():
        raise UserError("YOLO files hold shares of the image: name the folder of the images with images=….")
    if not config.classes:
        raise UserError("YOLO files hold class numbers: name the classes in their order with classes=[…].")
    images = Path(config.images)
    classes = config.classes
    by_stem = {p.stem: p for p in sorted(images.rglob("*")) if is_image(p)}
    frames = []
    for path in _files(source, (".txt",)):
        image = by_stem.get(path.stem)
        if image is None:
            raise UserError(f"{path}: there is no image {path.stem} in {images}; name the right folder.")
        width, height = open_image(image).size
        findings = []
        for number, line in enumerate(read_utf8(path).splitlines(), 1):
            words = line.split()
            if not words:
                continue
            if len(words) not in (5, 6) or not words[0].isdigit() or int(words[0]) >= len(classes):
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
    write_text(out, csv_text(("file", "frame", "category", "confidence", "x", "y", "w", "h"), rows))


def _write_json(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    write_text(out, json.dumps(_as_json(frames, names), indent=1, ensure_ascii=False) + "\n")


def _write_coco(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    write_json(out, _as_coco(frames, names))


def _write_yolo(out: Path, frames: Sequence[Frame], names: Sequence[str]) -> None:
    make_directory(out)
    for frame in frames:
        if frame.size is None:
            raise UserError(f"{frame.file}: YOLO needs the image's size, which the source does not say.")
        write_text(out / f"{Path(frame.file).stem}.txt", "".join(_yolo_lines(frame, frame.size, names)))
    write_text(out / "classes.txt", "".join(f"{name}\n" for name in names))


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


_READERS = {"voc": _read_voc, "coco": _read_coco, "yolo": _read_yolo, "csv": _read_own, "json": _read_own}
_WRITERS = {"csv": _write_csv, "json": _write_json, "coco": _write_coco, "yolo": _write_yolo}
