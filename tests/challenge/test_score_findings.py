"""`challenge score` on boxes and masks: golden figures through the files, refusals, patients, videos, centers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from challenge_runs import challenge, scores, write
from PIL import Image

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_detection_segmentation.json").read_text())


def detection_csv(folder: Path) -> tuple[Path, Path]:
    truth, told = ["file,frame,category,x,y,w,h"], ["file,frame,category,confidence,x,y,w,h"]
    for name in GOLDEN["detection"]["truth"]:
        for row in GOLDEN["detection"]["truth"][name] or [None]:
            truth.append(f"{name},0,{row['category']},{','.join(map(str, row['box']))}" if row else f"{name},0,,,,,")
        for row in GOLDEN["detection"]["predictions"][name]:
            told.append(f"{name},0,{row['category']},{row['confidence']},{','.join(map(str, row['box']))}")
    return write(folder / "truth.csv", *truth), write(folder / "told.csv", *told)


def test_golden_boxes_through_the_files(tmp_path: Path) -> None:
    truth, told = detection_csv(tmp_path)
    expected = GOLDEN["detection"]
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'coco'}", "bootstrap.replicates=100") == 0
    coco = scores(tmp_path / "coco")
    figures = coco["profiles"]["coco"]["metrics"]
    for name, key in (("map", "map_50_95"), ("map_50", "map_50"), ("map_75", "map_75")):
        assert figures[name]["value"] == pytest.approx(expected["coco_101_points"][key], abs=1e-9)
        assert figures[name]["low"] <= figures[name]["value"] <= figures[name]["high"]
    frames = coco["per_class"]["polyp"]["frames_presence_and_place"]
    assert {k: frames[k] for k in ("tp", "fp", "fn", "tn")} == GOLDEN["frame_level_polyp_at_0.5"]["presence_and_place"]
    words = ("profile=endocv2020", "bootstrap.replicates=50")
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'old'}", *words) == 0
    old = scores(tmp_path / "old")["profiles"]["endocv2020"]["metrics"]
    wanted = expected["endocv_plus_one_pixel_all_points"]
    assert old["map"]["value"] == pytest.approx(wanted["map_25_75"], abs=1e-9)
    assert old["iou_of_all_boxes"]["value"] == pytest.approx(wanted["iou_25_75"], abs=1e-9)
    assert old["score"]["value"] == pytest.approx(wanted["score_0.6_map_plus_0.4_iou"], abs=1e-9)
    words = ("profile=endocv2021", "bootstrap.replicates=20")
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'new'}", *words) == 0
    new = scores(tmp_path / "new")["profiles"]["endocv2021"]["metrics"]
    assert new["map_small"]["value"] == pytest.approx(new["map"]["value"])  # all boxes are under 100²
    assert new["map_large"]["value"] is None


def as_json(told: dict[str, Any], **changes: Any) -> str:
    data = [
        {"file": name, "format": "png", "width": 640, "height": 480, "results": rows} for name, rows in told.items()
    ]
    document = {
        "format": 1,
        "task": {"id": "polyp-detection", "type": "detection", "classes": ["instrument", "polyp"]},
        "data": data,
    }
    return json.dumps({**document, **changes})


def test_json_and_csv_give_the_same_figures(tmp_path: Path) -> None:
    truth, told = detection_csv(tmp_path)
    file = tmp_path / "predictions.json"
    file.write_text(as_json(GOLDEN["detection"]["predictions"]))
    for name, path in (("csv", told), ("json", file)):
        assert challenge("score", path, f"truth={truth}", f"out={tmp_path / name}", "bootstrap.replicates=30") == 0
    csv, js = (scores(tmp_path / name) for name in ("csv", "json"))
    assert csv["profiles"] == js["profiles"] and csv["per_class"] == js["per_class"]


T = "file,frame,category,x,y,w,h,width,height"
P = "file,frame,category,confidence,x,y,w,h"
A = "a.png,0,polyp,1,1,5,5,,"
REFUSED = [
    # what, truth rows, prediction rows, part of the sentence
    ("unknown category", ["a.png,0,polyp,1,1,5,5,50,50"], ["a.png,0,polip,0.5,1,1,5,5"], "line 2: unknown category"),
    (
        "frame without a row",
        [A, "b.png,0,,,,,,,"],
        ["a.png,0,polyp,0.5,1,1,5,5"],
        "b.png, frame",
    ),
    (
        "unknown file",
        [A],
        ["a.png,0,,,,,,", "z.png,0,,,,,,"],
        "line 3: z.png is not in the truth",
    ),
    ("beyond the end", ["v.mp4,7,polyp,1,1,5,5,,"], ["v.mp4,7,,,,,,", "v.mp4,9,,,,,,"], "lies beyond the last one, 7"),
    ("no width", [A], ["a.png,0,polyp,0.5,1,1,0,5"], "must be above 0"),
    ("not finite", [A], ["a.png,0,polyp,0.5,inf,1,3,5"], "no finite number"),
    (
        "outside",
        ["a.png,0,polyp,1,1,5,5,50,50"],
        ["a.png,0,polyp,0.5,40,1,12,5"],
        "outside the image of 50 × 50",
    ),
    ("confidence", [A], ["a.png,0,polyp,1.5,1,1,3,5"], "outside 0 to 1"),
    ("no confidence", [A], ["a.png,0,polyp,,1,1,3,5"], "the confidence"),
    (
        "empty and full",
        [A],
        ["a.png,0,,,,,,", "a.png,0,polyp,0.5,1,1,3,5"],
        "without a finding",
    ),
    ("value, no category", [A], ["a.png,0,,0.5,,,,"], "name the category"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_refused_boxes(
    case: tuple[str, list[str], list[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, told = write(tmp_path / "truth.csv", T, *case[1]), write(tmp_path / "told.csv", P, *case[2])
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
    message = capsys.readouterr().err
    assert case[3] in message and message.count("\n") == 1 and str(told) in message


def test_a_box_may_stick_out_by_one_pixel(tmp_path: Path) -> None:
    truth = write(tmp_path / "truth.csv", T, "a.png,0,polyp,1,1,5,5,50,50")
    told = write(tmp_path / "told.csv", P, "a.png,0,polyp,0.5,-1,0,52,50")
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}", "bootstrap.replicates=5") == 0


def test_refused_json_and_figures_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, told = detection_csv(tmp_path)
    file, predictions = tmp_path / "p.json", GOLDEN["detection"]["predictions"]
    classes = {"id": "x", "type": "detection", "classes": ["polyp"]}
    cases = [
        (as_json(predictions, format=2), "'format': Input should be 1"),
        (as_json(predictions, task=classes), "unknown category 'instrument'"),
        (as_json({n: [] for n in predictions}, task=classes), "'instrument' is on one side only"),
        (as_json(predictions)[:-3], "not valid JSON"),
        (as_json({**predictions, "1.jpg": []}), "'format' is 'png' and the file ends in 'jpg'"),
    ]
    for text, part in cases:
        file.write_text(text)
        assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
        assert part in capsys.readouterr().err
    assert challenge("score", told, f"truth={truth}", "metric=dice", f"out={tmp_path / 'out'}") == 2
    assert "these do: map, map_50" in capsys.readouterr().err
    labels = write(tmp_path / "labels.csv", "a,x", "b,y")
    assert challenge("score", told, f"truth={labels}", f"out={tmp_path / 'out'}") == 2
    assert "compare like with like" in capsys.readouterr().err
    submission = write(tmp_path / "sub.csv", "a,x,1", "b,y,1")
    assert challenge("score", submission, f"truth={labels}", "metric=pdr", f"out={tmp_path / 'out'}") == 2
    assert "pdr does not fit classification" in capsys.readouterr().err


def test_patients_videos_and_centers(tmp_path: Path) -> None:
    """Two patients, one found late; the second only by a false alarm."""
    head = "file,frame,category,x,y,w,h,patient,centre,object,histology,width,height"
    truth, told = [head], [P]
    for f in range(10):
        finding = f"polyp,{10 + f},10,20,20" if f >= 2 else ",,,,"
        extra = "p1,C1,o1,adenoma,200,100" if f >= 2 else "p1,C1,,,200,100"
        truth.append(f"one.mp4,{f},{finding},{extra}")
        told.append(f"one.mp4,{f},polyp,0.9,{10 + f},10,20,20" if f >= 5 else f"one.mp4,{f},,,,,,")
        truth.append(f"two.mp4,{f},polyp,50,50,20,20,p2,C2,o2,hyperplastic,200,100")
        told.append(f"two.mp4,{f},polyp,0.8,150,0,20,20" if f in (3, 4, 7) else f"two.mp4,{f},,,,,,")
    paths = write(tmp_path / "truth.csv", *truth), write(tmp_path / "told.csv", *told)
    words = ("fps=5", "unseen_center=C2", "bootstrap.replicates=200", f"out={tmp_path / 'out'}")
    assert challenge("score", paths[1], f"truth={paths[0]}", *words) == 0
    found = scores(tmp_path / "out")
    patients = found["patients"]["metrics"]
    assert {k: v["value"] for k, v in patients.items()} == {
        "pdr_truth": 1.0,
        "pdr_found": 0.5,
        "pdr_any_box": 1.0,
        "adr_truth": 0.5,
        "adr_found": 0.5,
        "polyp_miss_rate": 0.5,
        "adenoma_miss_rate": 0.0,
    }
    videos = found["videos"]
    assert videos["latency"] == {
        "objects": 2,
        "found": 1,
        "missed": 1,
        "mean_frames": 3.0,
        "median_frames": 3.0,
    }
    assert videos["mean_latency_seconds"] == pytest.approx(0.6)
    # Two alarms (frames 3-4 and 7) in 20 frames at 5 a second.
    assert videos["alarms_per_minute"] == pytest.approx(2 / (20 / 5 / 60))
    # 4 steps with the object (1 px, all true motion) and one of the false box, which stands still like its polyp.
    assert videos["jitter"]["steps"] == 5 and videos["jitter"]["mean_px"] == pytest.approx(4 / 5)
    assert videos["jitter"]["mean_residual_px"] == pytest.approx(0.0)
    gap = found["centers"]["generalization"]
    assert gap["unseen"] == 0.0 and gap["gap"] == pytest.approx(gap["seen"])
    assert (found["groups"], found["group_kind"]) == (2, "patient")
    assert found["by_size"]["small"] == {"boxes": 18, "found": 5, "recall": pytest.approx(5 / 18)}


def mask_files(folder: Path) -> tuple[Path, Path]:
    """The seven golden images as PNG masks."""
    rows: dict[str, list[str]] = {"truth": [], "prediction": []}
    for name, image in GOLDEN["segmentation"]["pictures"].items():
        for side, lines in rows.items():
            mask = np.array([[c == "#" for c in line] for line in image[side]])
            if mask.any():
                (folder / side).mkdir(parents=True, exist_ok=True)
                Image.fromarray((mask * 255).astype(np.uint8)).save(folder / side / f"{name}.png")
                lines.append(f"{name}.png,0,polyp,{side}/{name}.png,")
            else:
                lines.append(f"{name}.png,0,,,")
    truth = [f"{line},16,16" for line in rows["truth"]]
    return (
        write(folder / "truth.csv", "file,frame,category,mask,polygon,width,height", *truth),
        write(folder / "told.csv", "file,frame,category,mask,polygon", *rows["prediction"]),
    )


def test_golden_masks_through_the_files(tmp_path: Path) -> None:
    truth, told = mask_files(tmp_path)
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}", "bootstrap.replicates=200") == 0
    found, expected = scores(tmp_path / "out")["per_class"]["polyp"], GOLDEN["segmentation"]
    for name, value in expected["mean_over_pictures"].items():
        assert found["mean_over_images"][name]["value"] == pytest.approx(value, abs=1e-9), name
    for name, value in expected["mean_over_pictures_with_a_finding"].items():
        assert found["mean_over_images_with_a_finding"][name]["value"] == pytest.approx(value, abs=1e-9), name
    for name, value in expected["pooled_pixels"].items():
        pool = found["pooled_pixels"][name]
        assert pool["value"] == pytest.approx(value, abs=1e-9) and pool["low"] < pool["high"], name
    assert found["correct_nothing"]["value"] == 0.5
    words = ("profile=endotect", "bootstrap.replicates=0")
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'e'}", *words) == 0
    iou = scores(tmp_path / "e")["per_class"]["polyp"]["mean_over_images"]["iou"]["value"]
    assert iou == pytest.approx(expected["official_scripts"]["endotect_mean_iou_both_empty_is_0"], abs=1e-9)


def test_refused_masks_and_polygons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, told = mask_files(tmp_path)
    lines = told.read_text()
    gray, small = tmp_path / "grey.png", tmp_path / "small.png"
    Image.fromarray(np.full((16, 16), 7, np.uint8)).save(gray)
    Image.fromarray(np.full((8, 16), 255, np.uint8)).save(small)
    for name, part in (("grey.png", "holds the value 7"), ("small.png", "16 × 8"), ("none.png", "does not exist")):
        told.write_text(lines.replace("prediction/shifted.png", name))
        assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
        message = capsys.readouterr().err
        assert part in message and f"{told}, line 2" in message
    told.write_text(lines.replace("polyp,prediction/shifted.png,", "polyp,,4 4 11 4 11 11 4 11"))
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}", "bootstrap.replicates=0") == 0
    figures = scores(tmp_path / "out")["per_class"]["polyp"]["mean_over_images"]
    # The polygon is the true square itself, so this image's Dice is 1.
    assert figures["dice"]["value"] == pytest.approx((0.5038340336134454 * 7 - 0.65625 + 1) / 7)
