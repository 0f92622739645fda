"""`challenge convert` loses nothing in silence: what can't be held is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from challenge_runs import challenge

COCO: dict[str, Any] = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 80}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20]}],
    "categories": [{"id": 1, "name": "polyp"}],
}
VOC = """<annotation><filename>{file}</filename><size><width>{width}</width><height>80</height></size>
<object><name>polyp</name><bndbox><xmin>{x}</xmin><ymin>10</ymin><xmax>30</xmax><ymax>30</ymax></bndbox></object>
</annotation>"""


def coco(**changes: Any) -> dict[str, Any]:
    return {**COCO, **changes}


def images(*names: str) -> list[dict[str, Any]]:
    return [{"id": n, "file_name": name, "width": 100, "height": 80} for n, name in enumerate(names, 1)]


def box(*values: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": 1, "image_id": 1, "category_id": 1, "bbox": list(values), **more}]


@pytest.mark.parametrize(
    ("document", "target", "says"),
    [
        (coco(images=images("a.jpg", "a.png")), "yolo", "a.txt is taken"),
        (coco(images=images("one/a.jpg", "two/a.jpg")), "yolo", "a.txt is taken"),
        (coco(images=images("a.jpg", "classes.jpg")), "yolo", "classes.txt is taken"),
        (coco(images=images("a.jpg", "a.jpg")), "csv", "is there twice"),
        (coco(images=[*images("a.jpg"), {"id": 1, "file_name": "b.jpg"}]), "csv", "two images have one id"),
        (coco(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "csv", "two categories have one id"),
        (coco(annotations=box(1, 1, 2, 2) * 2), "csv", "two annotations have one id"),
        (coco(annotations=box(float("nan"), 1, 2, 2)), "csv", "no number"),
        (coco(annotations=box(1, 1, float("inf"), 2)), "json", "no number"),
        (coco(annotations=box(1, 1, 2, 2, score=float("nan"))), "csv", "no number"),
        (coco(annotations=box(90, 1, 20, 2)), "csv", "leaves the image"),
        (coco(annotations=box(-9, 1, 20, 2)), "yolo", "leaves the image"),
        (coco(annotations=box(1, 1, 0, 2)), "csv", "no size"),
        (coco(annotations=box(1, 1, "x", 2)), "csv", "no COCO file"),
        (coco(annotations=[7]), "csv", "no COCO file"),
        (coco(images=[{"id": 1, "file_name": "a.jpg", "width": 1e999, "height": 1}]), "csv", "no COCO file"),
        (coco(images=[{"id": 1, "file_name": "a.jpg", "width": 0, "height": 1}]), "yolo", "has the size"),
    ],
)  # fmt: skip
def test_coco(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: dict[str, Any], target: str, says: str
) -> None:
    source, out = tmp_path / "c.json", tmp_path / "out"
    source.write_text(json.dumps(document), encoding="utf-8")
    assert challenge("convert", source, "source_format=coco", f"target_format={target}", f"out={out}") == 2
    assert says in " ".join("".join(capsys.readouterr()).split())
    assert not out.exists()


def test_a_class_that_is_not_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "c.json"
    source.write_text(json.dumps(COCO), encoding="utf-8")
    words = ("convert", source, "source_format=coco", "target_format=yolo", f"out={tmp_path / 'out'}")
    assert challenge(*words, "classes=[ulcer]") == 2
    assert "its class 'polyp' is not in classes" in " ".join("".join(capsys.readouterr()).split())
    assert challenge(*words, "classes=[ulcer,polyp]") == 0
    assert (tmp_path / "out" / "a.txt").read_text(encoding="utf-8").startswith("1 0.2 0.25")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (VOC.format(file="a.jpg", width=100, x="nan"), "make no box"),
        (VOC.format(file="a.jpg", width=20, x=10), "leaves the image"),
        (VOC.format(file="a.jpg", width="nan", x=10), "no size of an image"),
        (VOC.format(file="a.jpg", width="1e999", x=10), "no size of an image"),
        (VOC.format(file="a.jpg", width=100, x=10).replace("annotation>", "svg>"), "not <annotation>"),
    ],
)
def test_voc(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    (tmp_path / "voc").mkdir()
    (tmp_path / "voc" / "a.xml").write_text(text, encoding="utf-8")
    assert challenge("convert", tmp_path / "voc", "source_format=voc", f"out={tmp_path / 'd.csv'}") == 2
    assert says in " ".join("".join(capsys.readouterr()).split())
    assert not (tmp_path / "d.csv").exists()
