"""Points in masks (APDCV), EAD's artifacts, and XML beside JSON."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from challenge_runs import challenge, results, scores, write
from PIL import Image
from test_score_findings import GOLDEN, as_json, detection_csv

from panendofm.challenge.profiles.ead import ARTIFACTS


def mask(path: Path, *boxes: tuple[int, int, int, int]) -> None:
    canvas = np.zeros((40, 60), np.uint8)
    for x, y, w, h in boxes:
        canvas[y : y + h, x : x + w] = 255
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(canvas).save(path)


def polyp_video(folder: Path) -> Path:
    """A video whose polyp appears in frame 1; an image with two polyps in one mask; one with none."""
    mask(folder / "m" / "v.png", (10, 10, 10, 10))
    mask(folder / "m" / "two.png", (5, 5, 8, 8), (40, 20, 10, 10))
    rows = ["file,frame,category,mask,object,width,height,device", "v.mp4,0,,,,60,40,A"]
    rows += [f"v.mp4,{f},polyp,m/v.png,p1,60,40,A" for f in range(1, 5)]
    return write(folder / "truth.csv", *rows, "two.png,0,polyp,m/two.png,,60,40,B", "none.png,0,,,,60,40,B")


POINTS = [
    *("v.mp4,0,,,,", "v.mp4,1,polyp,0.9,50,30", "v.mp4,2,,,,", "v.mp4,3,polyp,0.9,15,15", "v.mp4,3,polyp,0.8,12,18"),
    *("v.mp4,4,polyp,0.9,19.5,19.5", "v.mp4,4,polyp,0.2,1,1", "two.png,0,polyp,0.9,6,6", "none.png,0,polyp,0.7,3,3"),
]


def test_points_in_masks_by_hand(tmp_path: Path) -> None:
    truth = polyp_video(tmp_path)
    told = write(tmp_path / "told.csv", "file,frame,category,confidence,x,y", *POINTS)
    out = tmp_path / "out"
    assert challenge("score", told, f"truth={truth}", f"out={out}", "fps=5", "bootstrap.replicates=100") == 0
    found = scores(out)
    assert results(out)["submission"]["profile"] == "apdcv"
    # Frames 3 and 4 of the video (two points in one polyp count once), one of two polyps; the weak point is not shown.
    points = found["per_class"]["polyp"]["points"]
    assert {k: points[k] for k in ("tp", "fp", "fn")} == {"tp": 3, "fp": 2, "fn": 3}
    metrics = found["profiles"]["apdcv"]["metrics"]
    assert metrics["f1"]["value"] == pytest.approx(6 / 11) and metrics["recall"]["value"] == pytest.approx(0.5)
    # The video 4/7, the two polyps 2/3, the image with nothing but a false alarm 0.
    assert metrics["f1_mean_of_videos"]["value"] == pytest.approx((4 / 7 + 2 / 3 + 0) / 3)
    frames = found["per_class"]["polyp"]["frames_presence"]
    assert {k: frames[k] for k in ("tp", "fp", "fn", "tn")} == {"tp": 4, "fp": 1, "fn": 1, "tn": 1}
    assert found["latency"]["mean_frames"] == 2.0 and found["mean_latency_seconds"] == pytest.approx(0.4)
    parts = {(s["kind"], s["name"]): s for s in found["subgroups"]}
    assert parts["device", "B"]["metrics"]["recall"]["value"] == pytest.approx(0.5)
    assert "Points in findings" in (out / "index.html").read_text()
    assert challenge("rank", out, f"out={tmp_path / 'rank'}") == 0


def test_boxes_count_by_their_centers(tmp_path: Path) -> None:
    truth = polyp_video(tmp_path)
    boxes = []
    for row in POINTS:
        file, frame, category, confidence, x, y = row.split(",")
        place = f"{float(x) - 1},{float(y) - 1},2,2" if x else ",,,"
        boxes.append(f"{file},{frame},{category},{confidence},{place}")
    told = write(tmp_path / "boxes.csv", "file,frame,category,confidence,x,y,w,h", *boxes)
    points = write(tmp_path / "points.csv", "file,frame,category,confidence,x,y", *POINTS)
    for name, path in (("boxes", told), ("points", points)):
        assert challenge("score", path, f"truth={truth}", f"out={tmp_path / name}", "bootstrap.replicates=10") == 0
    assert scores(tmp_path / "boxes")["profiles"] == scores(tmp_path / "points")["profiles"]


def test_refused_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = polyp_video(tmp_path)
    for row, part in (
        ("two.png,0,polyp,0.9,6,", "the point's y"),
        ("two.png,0,polyp,0.9,6,600", "lies outside the image"),
    ):
        told = write(tmp_path / "told.csv", "file,frame,category,confidence,x,y", *POINTS[:7], row, POINTS[8])
        assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
        assert part in capsys.readouterr().err
    boxes = write(tmp_path / "boxes.csv", "file,frame,category,x,y,w,h", "two.png,0,polyp,1,1,5,5")
    assert challenge("score", told, f"truth={boxes}", f"out={tmp_path / 'out'}") == 2
    assert "compare like with like" in capsys.readouterr().err


def artifact_files(folder: Path) -> tuple[Path, Path]:
    """Three of the eight artifacts, near-hits of all degrees, equal confidences."""
    random = np.random.default_rng(1)
    truth, told = ["file,frame,category,x,y,w,h"], ["file,frame,category,confidence,x,y,w,h"]
    for i in range(30):
        for name in ("blur", "bubbles", "specularity"):
            x, y, w, h = (int(v) for v in (*random.integers(0, 80, 2), *random.integers(10, 40, 2)))
            truth.append(f"{i}.png,0,{name},{x},{y},{w},{h}")
            dx, dy = random.integers(-8, 9, 2)
            told.append(f"{i}.png,0,{name},{random.choice([0.2, 0.5, 0.9])},{x + dx},{y + dy},{w},{h}")
        told.append(f"{i}.png,0,blood,0.4,5,5,20,20")  # an artifact that the truth does not have
    return write(folder / "truth.csv", *truth), write(folder / "told.csv", *told)


def plain_score(truth: Path, told: Path) -> tuple[float, float]:
    """mAP and IoU of EndoCV 2020's scripts, box by box: corners with a pixel more, the best true box, taken or not."""

    def rows(path: Path) -> list[list[str]]:
        return [line.split(",") for line in path.read_text().splitlines()[1:]]

    def iou(a: list[float], b: list[float]) -> float:
        width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]) + 1
        height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]) + 1
        common = max(width, 0) * max(height, 0)
        return common / ((a[2] + 1) * (a[3] + 1) + (b[2] + 1) * (b[3] + 1) - common)

    precisions, overlaps = [], []
    for name in sorted({row[2] for row in rows(truth)}):
        true = [(row[0], [float(v) for v in row[3:]]) for row in rows(truth) if row[2] == name]
        own = [(row[0], float(row[3]), [float(v) for v in row[4:]]) for row in rows(told) if row[2] == name]
        own.sort(key=lambda row: -row[1])
        for threshold in np.arange(0.25, 0.76, 0.05).round(2):
            taken, hits, ious = set(), [], []
            for file, _, box in own:
                found = [(iou(box, other), k) for k, (name_, other) in enumerate(true) if name_ == file]
                best, k = max(found, key=lambda pair: pair[0])
                good = best >= threshold and k not in taken
                hits.append(good)
                ious.append(best if good else 0.0)
                taken |= {k} if good else set()
            tp, fp = np.cumsum(hits), np.cumsum(~np.array(hits))
            recall, precision = np.r_[0, tp / len(true), 1], np.r_[0, tp / (tp + fp), 0]
            envelope = np.maximum.accumulate(precision[::-1])[::-1]
            precisions.append(float(((recall[1:] - recall[:-1]) * envelope[1:]).sum()))
            overlaps.append(float(np.mean(ious)))
    return float(np.mean(precisions)), float(np.mean(overlaps))


def test_ead_score_equals_a_plain_computation(tmp_path: Path) -> None:
    truth, told = artifact_files(tmp_path)
    out = tmp_path / "out"
    assert challenge("score", told, f"truth={truth}", f"out={out}", "profile=ead2020", "bootstrap.replicates=20") == 0
    found = scores(out)
    assert found["classes"] == list(ARTIFACTS) and len(ARTIFACTS) == 8
    metrics = found["profiles"]["ead2020"]["metrics"]
    mean_ap, overlap = plain_score(truth, told)
    assert metrics["map"]["value"] == pytest.approx(mean_ap, abs=1e-9)
    assert metrics["iou_of_all_boxes"]["value"] == pytest.approx(overlap, abs=1e-9)
    assert metrics["score"]["value"] == pytest.approx(0.6 * mean_ap + 0.4 * overlap, abs=1e-9)
    assert found["profiles"]["ead2020"]["classes_with_truth"] == 3


def test_ead_names_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, told = artifact_files(tmp_path)
    told.write_text(told.read_text().replace("bubbles", "bubble"))
    assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}", "profile=ead2020") == 2
    assert "did you mean 'bubbles'?" in capsys.readouterr().err


def test_xml_is_read_like_json_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, _ = detection_csv(tmp_path)
    file = tmp_path / "p.json"
    file.write_text(as_json(GOLDEN["detection"]["predictions"]))
    for target, source in (("xml", file), ("json", tmp_path / "p.xml")):
        words = (f"source_format={source.suffix[1:]}", f"target_format={target}")
        out = tmp_path / ("p.xml" if target == "xml" else "back.json")
        assert challenge("convert", source, *words, f"out={out}") == 0
    root = ElementTree.parse(tmp_path / "p.xml").getroot()
    assert root.tag == "predictions" and len(root.findall("image")) == len(GOLDEN["detection"]["predictions"])
    for name in ("p.json", "p.xml", "back.json"):
        words = (f"truth={truth}", f"out={tmp_path / f'out-{name}'}", "bootstrap.replicates=10")
        assert challenge("score", tmp_path / name, *words) == 0
    every = [scores(tmp_path / f"out-{name}")["profiles"] for name in ("p.json", "p.xml", "back.json")]
    assert every[0] == every[1] == every[2]
    text = (tmp_path / "p.xml").read_text()
    for bad, part in (
        (text.replace('confidence="0.9', 'confidence="x', 1), "confidence"),
        (text.replace("<predictions", "<answers").replace("</predictions", "</answers"), "not <predictions>"),
        (text[:-20], "not valid XML"),
    ):
        (tmp_path / "bad.xml").write_text(bad)
        assert challenge("score", tmp_path / "bad.xml", f"truth={truth}", f"out={tmp_path / 'out'}") == 2
        assert part in capsys.readouterr().err
    assert json.loads((tmp_path / "back.json").read_text())["task"]["type"] == "detection"


def test_points_are_drawn_on_the_images_of_the_worst_subgroup(tmp_path: Path) -> None:
    truth = ["file,frame,category,mask,polygon,width,height,device"]
    told = ["file,frame,category,confidence,x,y"]
    (tmp_path / "images").mkdir()
    for number in range(4):
        Image.new("RGB", (60, 40)).save(tmp_path / "images" / f"{number}.png")
        truth.append(f"{number}.png,0,polyp,,10 10 30 10 30 30 10 30,60,40,{'AB'[number % 2]}")
        told.append(f"{number}.png,0,polyp,0.9,{20 if number % 2 else 50},20")
    words = (
        f"truth={write(tmp_path / 'truth.csv', *truth)}",
        f"images={tmp_path / 'images'}",
        "bootstrap.replicates=10",
    )
    assert challenge("score", write(tmp_path / "told.csv", *told), *words, f"out={tmp_path / 'out'}") == 0
    worst = scores(tmp_path / "out")["does_badly"][0]
    assert worst["subgroup"]["name"] == "A"
    with Image.open(tmp_path / "out" / worst["cases"][0]["image"]) as drawn:
        red, green, _ = np.asarray(drawn.convert("RGB")).astype(int)[drawn.height // 2, drawn.width * 50 // 60]
    assert red > 100 and red > green + 50
