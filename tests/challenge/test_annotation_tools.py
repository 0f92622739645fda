"""Exports of CVAT, Label Studio and LabelMe become gold: merged, arbitrated, reviewed, by tasks and back."""

from __future__ import annotations

import base64
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import annotation_exports as exports
import numpy as np
import pytest
from challenge_runs import challenge, write
from PIL import Image
from test_data_verbs import rows

FIRST: exports.Boxes = {
    "a.png": [("polyp", (10, 10, 40, 40))],
    "b.png": [("polyp", (20, 20, 30, 30))],
    "c.png": [],
    "d.png": [("polyp", (5, 5, 20, 20)), ("polyp", (100, 50, 40, 40))],
}
SECOND: exports.Boxes = {
    "a.png": [("polyp", (12, 10, 40, 40))],
    "b.png": [("polyp", (120, 20, 30, 30))],
    "c.png": [],
    "d.png": [("polyp", (5, 5, 20, 20)), ("polyp", (102, 50, 40, 40))],
}
THIRD: exports.Boxes = {name: FIRST[name] for name in ("a.png", "c.png")}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for name in FIRST:
        Image.new("RGB", exports.SIZE, (90, 40, 40)).save(folder / name)
    return folder


def first_round(tmp_path: Path) -> Path:
    log = tmp_path / "log.csv"
    exports.cvat(tmp_path / "one.xml", FIRST, "dr-one")
    exports.label_studio(tmp_path / "two.json", SECOND, 3)
    exports.labelme(tmp_path / "three", THIRD)
    names = ",".join(str(tmp_path / name) for name in ("one.xml", "two.json", "three"))
    words = (f"exports=[{names}]", "annotator=dr-three", f"out={tmp_path / 'gold'}", "date=2026-01-09")
    assert challenge("merge", log, *words) == 0
    before = log.read_text()
    assert challenge("merge", log, *words) == 0
    assert log.read_text() == before  # read twice, nothing is added
    return log


def test_three_tools_become_one_log(tmp_path: Path) -> None:
    log = first_round(tmp_path)
    own = [row for row in rows(log) if row["step"] == "independent"]
    assert {row["annotator"] for row in own} == {"dr-one", "user-3", "dr-three"}
    assert {row["annotator"]: row["date"] for row in own} == {
        "dr-one": "2026-01-05",
        "user-3": "2026-01-07",
        "dr-three": "2026-01-09",
    }
    boxes = {(row["file"], row["annotator"]): [float(row[k]) for k in "xywh"] for row in own if row["file"] == "a.png"}
    assert boxes == {
        ("a.png", "dr-one"): pytest.approx([10, 10, 40, 40]),
        ("a.png", "user-3"): pytest.approx([12, 10, 40, 40]),
        ("a.png", "dr-three"): pytest.approx([10, 10, 40, 40]),
    }
    merged = {row["file"]: row for row in rows(log) if row["step"] == "cross" and row["file"] in ("a.png", "c.png")}
    assert float(merged["a.png"]["x"]) == pytest.approx((10 + 12 + 10) / 3) and merged["a.png"]["merge"] == "average"
    assert merged["c.png"]["category"] == "" and merged["c.png"]["decision"] == ""  # all three saw nothing
    waiting = json.loads((tmp_path / "gold" / "gold.json").read_text())["waiting"]
    assert waiting == {"merge": 0, "arbitration": 2, "review": 4, "annotation": 0}


def test_arbitration_and_review_go_out_to_each_tool_and_back(tmp_path: Path, images: Path) -> None:
    log = first_round(tmp_path)
    # Arbitration in CVAT: of the two boxes on b.png the second is right, the first is deleted.
    words = (f"images={images}", f"out={tmp_path / 'arbitration'}")
    assert challenge("tasks", log, "tool=cvat", "step=arbitration", *words) == 0
    tree = ElementTree.parse(tmp_path / "arbitration" / "annotations.xml")
    image = tree.getroot().find("image")
    assert image is not None and image.get("name") == "b.png" and len(image.findall("box")) == 2
    for box in image.findall("box"):
        if float(box.get("xtl", 0)) < 100:
            image.remove(box)
    tree.write(tmp_path / "arbitrated.xml")
    words = (f"out={tmp_path / 'gold'}", "date=2026-01-10")
    done = (f"exports=[{tmp_path / 'arbitrated.xml'}]", "step=arbitration", "annotator=dr-four")
    assert challenge("merge", log, *done, *words) == 0
    arbitrated = [row for row in rows(log) if row["step"] == "arbitration"]
    assert sorted((row["file"], row["category"], row["x"]) for row in arbitrated) == [
        ("b.png", "", ""),
        ("b.png", "polyp", "120"),
    ]
    # Review in Label Studio: a is gold, one box of d goes back, the other is redrawn; b's stays undecided.
    words = (f"images={images}", f"out={tmp_path / 'review'}", "image_url=/data/local-files/?d=set/")
    assert challenge("tasks", log, "tool=labelstudio", "step=review", *words) == 0
    config = ElementTree.parse(tmp_path / "review" / "labeling_config.xml").getroot()
    assert [c.get("value") for c in config.findall("Choices[@name='decision']/Choice")] == ["undecided", "gold", "back"]
    tasks = json.loads((tmp_path / "review" / "tasks.json").read_text())
    assert {task["data"]["image"] for task in tasks} == {f"/data/local-files/?d=set/{n}.png" for n in "abcd"}
    answered = []
    for task in tasks:
        result = task["predictions"][0]["result"]
        answered.append({**task, "annotations": [{"completed_by": {"id": 9, "email": "p@q.org"}, "result": result}]})
        if task["data"]["image"].endswith("a.png"):
            decide(result, result[0], "gold")
        if task["data"]["image"].endswith("c.png"):
            whole = {"id": "z", "type": "choices", "from_name": "label_decision", "to_name": "image"}
            result.append({**whole, "value": {"choices": ["gold"]}})
        if task["data"]["image"].endswith("d.png"):
            small, large = sorted(result, key=lambda r: r["value"]["x"])
            decide(result, small, "back")
            large["value"]["width"] += 10  # 20 pixels
            decide(result, large, "gold")
    (tmp_path / "reviewed.json").write_text(json.dumps(answered))
    words = (f"out={tmp_path / 'gold'}", "date=2026-01-11")
    assert challenge("merge", log, f"exports=[{tmp_path / 'reviewed.json'}]", "step=review", *words) == 0
    gold = {row["file"]: row for row in rows(tmp_path / "gold" / "gold.csv")}
    assert set(gold) == {"a.png", "c.png", "d.png"}
    assert float(gold["d.png"]["w"]) == pytest.approx(60) and gold["c.png"]["category"] == ""
    waiting = json.loads((tmp_path / "gold" / "gold.json").read_text())["waiting"]
    assert waiting == {"merge": 0, "arbitration": 0, "review": 2, "annotation": 1}
    assert "p@q.org" not in log.read_text()
    # The rest of the review in LabelMe.
    words = (f"images={images}", f"out={tmp_path / 'labelme'}")
    assert challenge("tasks", log, "tool=labelme", "step=review", *words) == 0
    document = json.loads((tmp_path / "labelme" / "b.json").read_text())
    (shape,) = document["shapes"]
    shape["description"] = shape["description"].replace("decision=undecided", "decision=gold")
    document["flags"]["decision: gold"] = True
    document["flags"]["no finding"] = True
    (tmp_path / "labelme" / "b.json").write_text(json.dumps(document))
    done = (f"exports=[{tmp_path / 'labelme'}]", "step=review", "annotator=dr-five", f"out={tmp_path / 'gold'}")
    assert challenge("merge", log, *done) == 0
    gold_of_b = [row["x"] for row in rows(tmp_path / "gold" / "gold.csv") if row["file"] == "b.png"]
    assert sorted(gold_of_b) == ["", "120"]


def decide(result: list[dict[str, Any]], region: dict[str, Any], decision: str) -> None:
    """As Label Studio writes a choice for one region: a second result with its id."""
    value = {k: v for k, v in region["value"].items() if k != "rectanglelabels"}
    chosen = {"type": "choices", "from_name": "decision", "value": {**value, "choices": [decision]}}
    result.append({**{k: region[k] for k in ("id", "to_name", "original_width", "original_height")}, **chosen})


def test_labels_of_images_in_three_tools(tmp_path: Path) -> None:
    """Tags, choices and flags: two of three say polyp."""
    tag = '<image id="0" name="a.png" width="200" height="100"><tag label="polyp" source="manual"></tag></image>'
    one = write(tmp_path / "one.xml", f"<annotations><version>1.1</version>{tag}</annotations>")
    choice = {"id": "x", "type": "choices", "from_name": "label", "to_name": "image", "value": {"choices": ["polyp"]}}
    task = {"data": {"image": "http://host/a.png"}, "annotations": [{"completed_by": 1, "result": [choice]}]}
    two = write(tmp_path / "two.json", json.dumps([task]))
    three = exports.labelme(tmp_path / "three", {"a.png": []}, polyp=False, ulcer=True)
    log = tmp_path / "log.csv"
    for path, who in ((one, "x"), (two, "y"), (three, "z")):
        words = (f"exports=[{path}]", f"annotator={who}", f"out={tmp_path / 'gold'}")
        assert challenge("merge", log, *words) == 0 or path
    cross = [row for row in rows(log) if row["step"] == "cross"]
    # Each export was merged as it came: one label alone asks for arbitration.
    assert [row["decision"] for row in cross] == ["arbitrate"] * 3
    log.unlink()
    words = (f"exports=[{one},{two},{three}]", "annotator=z", f"out={tmp_path / 'gold'}")
    assert challenge("merge", log, *words) == 0
    (cross_row,) = [row for row in rows(log) if row["step"] == "cross"]
    assert (cross_row["category"], cross_row["merge"]) == ("polyp", "majority")


def test_masks_of_three_tools_are_the_same_pixels(tmp_path: Path, images: Path) -> None:
    """A square as run lengths, as a polygon in percent and as a PNG in its corners; then reviewed into a truth."""
    square = np.zeros((100, 200), bool)
    square[20:41, 30:61] = True
    runs = f"0, {31 * 21}"
    mask = f'<mask label="polyp" source="manual" rle="{runs}" left="30" top="20" width="31" height="21"></mask>'
    image = f'<image id="0" name="a.png" width="200" height="100">{mask}</image>'
    write(tmp_path / "one.xml", f"<annotations><version>1.1</version>{image}</annotations>")
    points = [[15, 20], [30, 20], [30, 40], [15, 40]]  # percent of 200 × 100
    value = {"points": points, "polygonlabels": ["polyp"]}
    region = {"id": "x", "type": "polygonlabels", "from_name": "o", "to_name": "image", "value": value}
    region |= {"original_width": 200, "original_height": 100}
    task = {"data": {"image": "a.png"}, "annotations": [{"completed_by": 1, "result": [region]}]}
    write(tmp_path / "two.json", json.dumps([task]))
    buffer = io.BytesIO()
    Image.fromarray(np.full((21, 31), 1, np.uint8) * 255).save(buffer, "PNG")
    shape = {"label": "polyp", "shape_type": "mask", "points": [[30, 20], [60, 40]]}
    shape["mask"] = base64.b64encode(buffer.getvalue()).decode()
    document = {"shapes": [shape], "imagePath": "a.png", "imageHeight": 100, "imageWidth": 200, "flags": {}}
    write(tmp_path / "three.json", json.dumps(document))
    for name in ("one.xml", "two.json", "three.json"):
        log = tmp_path / Path(name).stem / "log.csv"
        log.parent.mkdir()
        words = (f"exports=[{tmp_path / name}]", "annotator=x", f"out={tmp_path / Path(name).stem / 'gold'}")
        assert challenge("merge", log, *words) == 0
        (row,) = rows(log)
        assert row["step"] == "initial"
        assert np.array_equal(np.asarray(Image.open(log.parent / row["mask"])) > 0, square), name
    # The last one is reviewed in CVAT and scored against, wherever gold.csv lies.
    words = (f"images={images}", f"out={tmp_path / 'review'}")
    assert challenge("tasks", log, "tool=cvat", "step=review", *words) == 0
    text = (tmp_path / "review" / "annotations.xml").read_text()
    assert "<polygon" in text
    write(tmp_path / "reviewed.xml", text.replace(">undecided<", ">gold<"))
    words = (f"exports=[{tmp_path / 'reviewed.xml'}]", "step=review", "annotator=y", f"out={tmp_path / 'far' / 'gold'}")
    assert challenge("merge", log, *words) == 0
    told = write(tmp_path / "told.csv", "file,frame,category,mask,polygon", "a.png,0,polyp,,30 20 60 20 60 40 30 40")
    words = (f"truth={tmp_path / 'far' / 'gold' / 'gold.csv'}", f"out={tmp_path / 'out'}", "bootstrap.replicates=0")
    assert challenge("score", told, *words) == 0
    dice = json.loads((tmp_path / "out" / "results.json").read_text())["scores"]["per_class"]["polyp"]
    assert dice["mean_over_images"]["dice"]["value"] == 1.0


def test_boxes_of_a_system_are_drawn_in_beforehand(tmp_path: Path, images: Path) -> None:
    told = write(
        tmp_path / "told.csv",
        "file,frame,category,confidence,x,y,w,h",
        *("a.png,0,polyp,0.9,10,10,40,40", "a.png,0,polyp,0.2,1,1,4,4", "b.png,0,,,,,,"),
    )
    for tool in ("cvat", "labelstudio", "labelme"):
        out = tmp_path / tool
        words = (f"tool={tool}", f"images={images}", f"candidates={told}", "classes=[ulcer]", f"out={out}")
        assert challenge("tasks", tmp_path / "log.csv", *words) == 0
    root = ElementTree.parse(tmp_path / "cvat" / "annotations.xml").getroot()
    assert [len(image.findall("box")) for image in root.iter("image")] == [1, 0, 0, 0]
    labels = json.loads((tmp_path / "cvat" / "labels.json").read_text())
    assert [label["name"] for label in labels] == ["polyp", "ulcer", "no finding"]
    # Untouched, an export is what was written; all tools say the same.
    for tool, name in (("cvat", "annotations.xml"), ("labelme", "")):
        log = tmp_path / f"{tool}.csv"
        words = (f"exports=[{tmp_path / tool / name}]", "annotator=x", f"out={tmp_path / 'gold'}")
        assert challenge("merge", log, *words) == 0
        own = [row for row in rows(log) if row["step"] == "independent"]
        assert [(row["file"], row["x"], row["w"]) for row in own] == [
            ("a.png", "10", "40"),
            *((f"{n}.png", "", "") for n in "bcd"),
        ]


def test_tracks_of_a_video(tmp_path: Path) -> None:
    box = '<box frame="{f}" outside="{o}" occluded="0" keyframe="1" xtl="1" ytl="2" xbr="11" ybr="12"></box>'
    track = "".join(box.format(f=f, o=int(f == 2)) for f in range(3))
    meta = (
        "<meta><task><size>4</size><original_size><width>64</width><height>48</height></original_size></task>"
        "<source>v.mp4</source></meta>"
    )
    write(
        tmp_path / "v.xml",
        f'<annotations><version>1.1</version>{meta}<track id="0" label="polyp">{track}</track></annotations>',
    )
    log = tmp_path / "log.csv"
    words = (f"exports=[{tmp_path / 'v.xml'}]", "annotator=x", f"out={tmp_path / 'gold'}")
    assert challenge("merge", log, *words) == 0
    own = [(row["file"], row["frame"], row["category"]) for row in rows(log) if row["step"] == "independent"]
    assert own == [("v.mp4", "0", "polyp"), ("v.mp4", "1", "polyp"), ("v.mp4", "2", ""), ("v.mp4", "3", "")]


BAD = [
    ("one.xml", "<annotations><version>1.0</version></annotations>", "not 1.1"),
    ("one.xml", "<annotations", "not valid XML"),
    (
        "one.xml",
        '<annotations><version>1.1</version><image name="a.png" width="9" height="9">'
        '<ellipse label="p"/></image></annotations>',
        "kind 'ellipse'",
    ),
    (
        "one.xml",
        '<annotations><version>1.1</version><image name="a.png" width="9" height="9">'
        '<mask label="p" rle="3, 3" left="0" top="0" width="3" height="3"/></image></annotations>',
        "do not fill its box",
    ),
    ("two.json", '[{"data": {"image": "a.png"}, "annotations": [{"completed_by": 1}]}]', "no annotated image"),
    ("three.json", '{"imagePath": "a.png", "shapes": [{"label": "p"}], "imageWidth": 9, "imageHeight": 9}', "'points'"),
    ("four.json", '{"images": []}', "no export of CVAT"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case[2])
def test_bad_exports_are_refused(
    case: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / case[0], case[1])
    log = tmp_path / "log.csv"
    assert challenge("merge", log, f"exports=[{path}]", "annotator=x", f"out={tmp_path / 'gold'}") == 2
    message = capsys.readouterr().err
    assert case[2] in message and str(path) in message and not log.exists()


def test_who_annotated_must_be_known_and_what_was_read_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    folder = exports.labelme(tmp_path / "three", THIRD)
    assert challenge("merge", log, f"exports=[{folder}]", f"out={tmp_path / 'gold'}") == 2
    assert "annotator=…" in capsys.readouterr().err
    words = (f"exports=[{folder}]", "annotator=x", f"out={tmp_path / 'gold'}")
    assert challenge("merge", log, *words) == 0
    before = log.read_text()
    document = json.loads((folder / "a.json").read_text())
    document["shapes"][0]["points"] = [[0, 0], [9, 9]]
    (folder / "a.json").write_text(json.dumps(document))
    assert challenge("merge", log, *words) == 2
    assert "the log only grows" in capsys.readouterr().err and log.read_text() == before
