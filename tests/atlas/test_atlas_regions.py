"""Regions of images: parts of masks, boxes and lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest

from panendofm.atlas.build import build_atlas
from panendofm.atlas.datasets.regions import mask_components, read_regions, save_regions
from panendofm.runtime.errors import UserError


@pytest.fixture(scope="module")
def case(golden: Path) -> Any:
    return json.loads((golden / "metrics_endobench.json").read_text(encoding="utf-8"))["mask_regions"]


def test_parts_of_a_mask(case: Any) -> None:
    mask = np.array(case["mask"])
    every = mask_components(mask, 0)
    assert [{"box": list(c.box), "pixels": c.pixels} for c in every] == case["components"]
    kept = mask_components(mask, case["min_area_share"])
    assert [{"box": list(c.box), "pixels": c.pixels} for c in kept] == case["expected_kept"]
    assert len(kept) == case["expected_polyp_count"]
    assert mask_components(np.zeros((4, 4))) == []


def draw_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (60, 80, 3), np.uint8))


def test_masks_beside_the_images(tmp_path: Path) -> None:
    folder = tmp_path / "Kvasir-SEG"
    for number in range(3):
        draw_image(folder / "images" / f"p{number}.jpg", number)
    (folder / "masks").mkdir()
    mask = np.zeros((60, 80), np.uint8)
    mask[10:30, 20:50] = 255
    mask[40:50, 5:15] = 255
    cv2.imwrite(str(folder / "masks" / "p0.png"), mask)
    cv2.imwrite(str(folder / "masks" / "p1.png"), mask[:30])
    atlas = build_atlas([str(folder)], 0)
    rows = {Path(row.path).stem: row for row in atlas.rows}
    regions = read_regions(atlas.rows)
    assert [region.box for region in regions.of[rows["p0"].sha256]] == [(20, 10, 50, 30), (5, 40, 15, 50)]
    assert regions.of[rows["p0"].sha256][0].label.finding == "colon-polyp"
    assert regions.complete == {rows["p0"].sha256}
    assert dict(regions.problems) == {"kvasir-seg: mask of another size than its image": 1}


def test_a_list_of_regions(tmp_path: Path) -> None:
    folder = tmp_path / "Kvasir-SEG"
    (folder / "masks").mkdir(parents=True)
    draw_image(folder / "images" / "a.jpg", 1)
    atlas = build_atlas([str(folder)], 0)
    lines = [
        {"file": "images/a.jpg", "label": "polyp", "box": [1, 2, 30, 40]},
        {"file": "images/a.jpg", "label": "colon/anatomical-landmarks/cecum", "polygon": [[5, 5], [20, 5], [9, 30]]},
        {"file": "images/a.jpg", "label": "nonsense", "box": [1, 2, 30, 40]},
        {"file": "images/a.jpg", "label": "polyp", "box": [70, 2, 95, 40]},
        {"file": "images/other.jpg", "label": "polyp", "box": [1, 2, 30, 40]},
    ]
    listed = folder / "regions.jsonl"
    listed.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    regions = read_regions(atlas.rows, listed)
    found = regions.of[atlas.rows[0].sha256]
    assert [(r.label.finding, r.box) for r in found] == [("colon-polyp", (1, 2, 30, 40)), ("cecum", (5, 5, 20, 30))]
    assert dict(regions.problems) == {
        "unknown label 'nonsense'": 1,
        "box is empty or outside its image": 1,
        "image is not in the atlas": 1,
    }
    listed.write_text('{"file": "images/a.jpg", "label": "polyp", "box": [1, 2]}\n', encoding="utf-8")
    with pytest.raises(UserError, match=r"regions\.jsonl, line 1"):
        read_regions(atlas.rows, listed)


def test_labelme_files(tmp_path: Path) -> None:
    folder = tmp_path / "Kvasir-SEG"
    (folder / "masks").mkdir(parents=True)
    draw_image(folder / "images" / "a.jpg", 1)
    shapes = [
        {"label": "polyp", "shape_type": "rectangle", "points": [[40, 30], [10, 5]]},
        {"label": "polyp", "shape_type": "polygon", "points": [[1, 1], [9, 1], [9, 9]]},
    ]
    content = {"imagePath": "../images/a.jpg", "imageWidth": 80, "imageHeight": 60, "shapes": shapes}
    (folder / "boxes").mkdir()
    (folder / "boxes" / "a.json").write_text(json.dumps(content), encoding="utf-8")
    atlas = build_atlas([str(folder)], 0)
    found = read_regions(atlas.rows, folder / "boxes").of[atlas.rows[0].sha256]
    assert [(r.box, len(r.polygon)) for r in found] == [((10, 5, 40, 30), 0), ((1, 1, 9, 9), 3)]


def test_regions_of_many_layouts_and_their_table(tmp_path: Path) -> None:
    mask = np.zeros((60, 80), np.uint8)
    mask[10:30, 20:50] = 255
    layouts = {
        "ETIS-LaribPolypDB": ("1.tif", "Ground Truth/p1.tif"),
        "SUN-SEG": ("TrainDataset/Frame/case7_3/a.jpg", "TrainDataset/GT/case7_3/a.png"),
        "CVC-ColonDB": ("images/1.png", "masks/1.png"),
        "hyper-kvasir": ("segmented-images/images/cju.jpg", "segmented-images/masks/cju.jpg"),
    }
    for number, (folder, (image, truth)) in enumerate(layouts.items()):
        draw_image(tmp_path / folder / image, 20 + number)
        (tmp_path / folder / truth).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(tmp_path / folder / truth), mask)
    # A labeled image of HyperKvasir has no mask, and none is missed.
    draw_image(tmp_path / "hyper-kvasir/labeled-images/lower-gi-tract/anatomical-landmarks/cecum/a.jpg", 30)
    capsule = tmp_path / "labelled_images"
    name = f"{'0123456789abcdef'}_12.jpg"
    draw_image(capsule / "Angiectasia" / name, 31)
    for other in ("Normal clean mucosa", "Ileocecal valve"):
        draw_image(capsule / other / f"{'0123456789abcdef'}_{len(other)}.jpg", len(other))
    head = "filename;video_id;finding_class;x1;y1;x2;y2;x3;y3;x4;y4"
    (capsule / "metadata.csv").write_text(f"{head}\n{name};0;Angiectasia;8;40;8;10;30;10;30;40\n")
    atlas = build_atlas([str(tmp_path)], 0)
    regions = read_regions(atlas.rows)
    boxes = {row.dataset: [r.box for r in regions.of[row.sha256]] for row in atlas.rows if row.sha256 in regions.of}
    one = [(20, 10, 50, 30)]
    assert {k: v for k, v in boxes.items() if v} == {
        "etis-larib": one, "sun-seg": one, "cvc-colondb": one, "hyperkvasir": one, "kvasir-capsule": [(8, 10, 30, 40)],
    }  # fmt: skip
    assert not regions.problems
    assert save_regions(regions, tmp_path / "atlas.regions.parquet") == 5
    table = pq.read_table(tmp_path / "atlas.regions.parquet").to_pylist()
    assert {row["sha256"] for row in table} == {digest for digest, found in regions.of.items() if found}
    assert all(len(row["polygon"]) >= 8 for row in table if row["x1"] == 20)
