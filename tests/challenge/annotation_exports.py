"""Exports as CVAT, Label Studio and LabelMe document them, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Boxes = dict[str, list[tuple[str, tuple[float, float, float, float]]]]
SIZE = (200, 100)


def cvat(path: Path, images: Boxes, person: str) -> Path:
    rows = []
    for number, (name, boxes) in enumerate(images.items()):
        inner = "".join(
            f'<box label="{label}" source="manual" occluded="0" xtl="{x:.2f}" ytl="{y:.2f}" xbr="{x + w:.2f}" '
            f'ybr="{y + h:.2f}" z_order="0"></box>'
            for label, (x, y, w, h) in boxes
        )
        rows.append(f'<image id="{number}" name="{name}" width="{SIZE[0]}" height="{SIZE[1]}">{inner}</image>')
    meta = (
        f"<meta><task><id>7</id><name>polyps</name><size>{len(images)}</size><mode>annotation</mode>"
        "<updated>2026-01-05 10:00:00.000000+00:00</updated><labels><label><name>polyp</name></label></labels>"
        f"<owner><username>admin</username><email></email></owner><assignee><username>{person}</username>"
        "<email>x@y.org</email></assignee></task><dumped>2026-01-06 10:00:00.000000+00:00</dumped></meta>"
    )
    path.write_text(
        f'<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version>{meta}{"".join(rows)}</annotations>'
    )
    return path


def label_studio(path: Path, images: Boxes, person: int, **more: Any) -> Path:
    tasks = []
    for number, (name, boxes) in enumerate(images.items(), 1):
        result = [
            {
                "id": f"r{number}{k}",
                "type": "rectanglelabels",
                "from_name": "boxes",
                "to_name": "image",
                "original_width": SIZE[0],
                "original_height": SIZE[1],
                "image_rotation": 0,
                "value": {
                    "x": 100 * x / SIZE[0],
                    "y": 100 * y / SIZE[1],
                    "width": 100 * w / SIZE[0],
                    "height": 100 * h / SIZE[1],
                    "rotation": 0,
                    "rectanglelabels": [label],
                },
            }
            for k, (label, (x, y, w, h)) in enumerate(boxes)
        ]
        annotation = {
            "id": 100 + number,
            "completed_by": person,
            "result": result,
            "was_cancelled": False,
            "ground_truth": False,
            "updated_at": "2026-01-07T09:00:00.000000Z",
            **more,
        }
        tasks.append({"id": number, "data": {"image": f"/data/upload/1/1f2e3d4c-{name}"}, "annotations": [annotation]})
    path.write_text(json.dumps(tasks))
    return path


def labelme(folder: Path, images: Boxes, **flags: bool) -> Path:
    folder.mkdir()
    for name, boxes in images.items():
        shapes = [
            {
                "label": label,
                "points": [[x + w, y + h], [x, y]],  # drawn from the lower right corner
                "group_id": None,
                "description": "",
                "shape_type": "rectangle",
                "flags": {},
                "mask": None,
            }
            for label, (x, y, w, h) in boxes
        ]
        document = {
            "version": "5.4.1",
            "flags": flags,
            "shapes": shapes,
            "imagePath": f"..\\images\\{name}",
            "imageData": None,
            "imageHeight": SIZE[1],
            "imageWidth": SIZE[0],
        }
        (folder / f"{Path(name).stem}.json").write_text(json.dumps(document))
    return folder
