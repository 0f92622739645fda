"""predictions.xml: what predictions.json holds, as the benchmark's text allows it, too.

    <predictions format="1">
      <task id="polyp-detection" type="detection"><class>polyp</class></task>
      <image file="a.png" width="640" height="480">
        <result category="polyp" confidence="0.91"><box x="12" y="12" w="40" h="40"/></result>
      </image>
    </predictions>

Both are checked by the same classes: here they are only turned into one another.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from panendofm.challenge.files.text_table import read_utf8
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import printable

_PLACES = {"box": ("x", "y", "w", "h"), "point": ("x", "y")}
_WHOLE = ("frame", "width", "height", "format")
_DECIMAL = ("confidence", "time_ms", "age", "size_mm", *_PLACES["box"])


def read_xml_document(path: Path) -> dict[str, Any]:
    """In the shape of predictions.json; numbers that are none stay text, which the reader of the shape names."""
    root = read_xml(path, "predictions")
    task = root.find("task")
    if task is None:
        raise UserError(f"{path}: there is no <task> that says what was to be done; add one.")
    return {
        "format": _value("format", root.get("format", "")),
        "task": {**task.attrib, "classes": [(item.text or "").strip() for item in task.iter("class")]},
        "data": [_image(item) for item in root.iter("image")],
    }


def read_xml(path: Path, root_tag: str) -> ElementTree.Element:
    """The root of a file; another one is refused."""
    try:
        root = ElementTree.fromstring(read_utf8(path))
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: this is not valid XML ({error}); replace the file.") from None
    if root.tag != root_tag:
        raise UserError(f"{path}: its root is <{printable(root.tag)}>, not <{root_tag}>; name the right file.")
    return root


def _image(item: ElementTree.Element) -> dict[str, Any]:
    found: dict[str, Any] = {name: text if name == "format" else _value(name, text) for name, text in item.items()}
    return {**found, "results": [_result(result) for result in item.iter("result")]}


def _result(result: ElementTree.Element) -> dict[str, Any]:
    found = {name: _value(name, text) for name, text in result.items()}
    for name, sides in _PLACES.items():
        place = result.find(name)
        if place is not None:
            found[name] = [_value(side, place.get(side, "")) for side in sides]
    return found


def _value(name: str, text: str) -> Any:
    kind = int if name in _WHOLE else float if name in _DECIMAL else str
    try:
        return kind(text)
    except ValueError:
        return text


def xml_text(document: Mapping[str, Any]) -> str:
    """Of a document in the shape of predictions.json."""
    root = ElementTree.Element("predictions", format=str(document["format"]))
    task = ElementTree.SubElement(root, "task", {k: str(v) for k, v in document["task"].items() if k != "classes"})
    for name in document["task"]["classes"]:
        ElementTree.SubElement(task, "class").text = name
    for entry in document["data"]:
        image = ElementTree.SubElement(root, "image", _attributes(entry, "results"))
        for result in entry["results"]:
            item = ElementTree.SubElement(image, "result", _attributes(result, *_PLACES))
            for name, sides in _PLACES.items():
                if result.get(name) is not None:
                    ElementTree.SubElement(item, name, {s: repr(v) for s, v in zip(sides, result[name], strict=True)})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _attributes(entry: Mapping[str, Any], *without: str) -> dict[str, str]:
    return {
        name: repr(value) if isinstance(value, float) else str(value)
        for name, value in entry.items()
        if name not in without and value is not None
    }
