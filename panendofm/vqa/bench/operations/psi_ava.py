"""PSI-AVA: prostatectomies with phases and steps, and boxes of instruments with their actions.

keyframes/CASE001/00000.jpg
annotations/*.json                     COCO: images, annotations (bbox, category_id, actions, phases, steps),
                                       categories, phases_categories, steps_categories, actions_categories
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from panendofm.atlas import Region
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object
from panendofm.vqa.bench.operations.source import Moment, OperationSource, as_annotation, instrument

_OPERATION = "prostatectomy"
_NAMES = ("phases_categories", "steps_categories", "actions_categories", "categories")


def _looks_like(folder: Path) -> bool:
    return (folder / "keyframes").is_dir() and any(folder.glob("annotations/*.json"))


def _read(folder: Path) -> Iterator[Moment]:
    for file in sorted((folder / "annotations").glob("*.json")):
        values = read_json_object(file)
        try:
            yield from _moments(folder, values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{file}: it is no COCO file with phases, steps and actions ({error!r} is missing)."
            ) from error


def _moments(folder: Path, values: dict[str, Any]) -> Iterator[Moment]:
    names = {key: {int(own["id"]): str(own["name"]) for own in values.get(key, [])} for key in _NAMES}
    by_image: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for own in values["annotations"]:
        by_image[own["image_id"]].append(own)
    for image in values["images"]:
        path = folder / "keyframes" / image["file_name"]
        marked = by_image.get(image["id"], [])
        if not path.is_file() or not marked:
            continue
        regions = []
        for own in marked:
            x, y, width, height = map(float, own["bbox"])
            label = instrument(names["categories"][own["category_id"]], _OPERATION)
            regions.append(Region(label, (x, y, x + width, y + height)))
        # The action is known of the one instrument; of several the question would not know which one is meant.
        doing = marked[0].get("actions", []) if len(marked) == 1 else []
        annotation = as_annotation(
            _OPERATION,
            [region.label.finding for region in regions],
            phase=_name(names["phases_categories"], marked[0].get("phases")),
            step=_name(names["steps_categories"], marked[0].get("steps")),
            action=names["actions_categories"].get(int(doing[0]), "") if len(doing) == 1 else "",
        )
        yield Moment(path, path.parent.name, annotation, tuple(regions))


def _name(names: dict[int, str], number: int | None) -> str:
    return "" if number is None else names.get(int(number), "").replace("_", " ")


SOURCE = OperationSource(
    "psi-ava",
    "PSI-AVA",
    _OPERATION,
    "unknown",
    _looks_like,
    _read,
    checked="layout from its description, names of the keys recalled; no real files were at hand",
)
