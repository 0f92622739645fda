"""Subgroups of a test set: metrics by device, sex, age band, organ and size, against scikit-learn and plain loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from challenge_runs import challenge, results, scores, write
from PIL import Image
from sklearn.metrics import matthews_corrcoef, precision_score, recall_score

HEAD = "file,label,patient,center,device,hospital,sex,age,organ,size_mm"
CLASSES = ("adenoma", "hyperplastic", "normal")


def labeled(folder: Path, n: int = 240) -> tuple[Path, Path, list[dict[str, Any]]]:
    """A system that does worse on one device, and on which one class is missing."""
    random = np.random.default_rng(3)
    rows, truth, told = [], [HEAD], ["file,category,confidence"]
    for i in range(n):
        device = "old" if i % 4 == 0 else "new"
        label = CLASSES[i // 4 % 2] if device == "old" else CLASSES[i % 3]
        right = random.random() < (0.5 if device == "old" else 0.9)
        answer = label if right else str(random.choice([c for c in CLASSES if c != label]))
        patient = i // 4 * 2 + (device == "old")
        age, sex = 40 + patient % 50, ("f", "m", "")[patient % 3]
        size = "" if label == "normal" else 3 + i % 9
        rows.append(
            {"label": label, "answer": answer, "device": device, "sex": sex, "age": age, "size": size, "p": patient}
        )
        truth.append(f"{i}.png,{label},p{patient},C{i % 2},{device},H1,{sex},{age},colon,{size}")
        told.append(f"{i}.png,{answer},{random.uniform(0.4, 1):.3f}")
    return write(folder / "truth.csv", *truth), write(folder / "told.csv", *told), rows


def found(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(s["kind"], s["name"]): s for s in scores(folder)["subgroups"]}


def test_label_subgroups_equal_scikit_learn(tmp_path: Path) -> None:
    truth, told, rows = labeled(tmp_path)
    out = tmp_path / "out"
    words = (f"truth={truth}", f"out={out}", "bootstrap.replicates=200", "subgroups.small=40")
    assert challenge("score", told, *words) == 0
    parts = found(out)
    # One organ and one hospital tell nobody apart.
    assert {kind for kind, _ in parts} == {"center", "device", "sex", "age", "size", "class"}
    assert [name for kind, name in parts if kind == "age"] == [
        *("under 50", "50 to under 60", "60 to under 70", "70 to under 80", "80 and over"),
    ]
    assert [name for kind, name in parts if kind == "size"] == ["under 6 mm", "6 to under 10 mm", "10 mm and over"]
    assert ("sex", "not stated") in parts
    chosen = {
        ("device", "old"): [r for r in rows if r["device"] == "old"],
        ("sex", "f"): [r for r in rows if r["sex"] == "f"],
        ("age", "50 to under 60"): [r for r in rows if 50 <= r["age"] < 60],
        ("size", "6 to under 10 mm"): [r for r in rows if r["size"] and 6 <= r["size"] < 10],
    }
    for key, members in chosen.items():
        part = parts[key]
        present = sorted({r["label"] for r in members})
        whole = [r for r in rows if r["label"] in present]
        assert part["images"] == len(members) and part["groups"] == len({r["p"] for r in members})
        for name, value in plain_metrics(members, present).items():
            assert part["metrics"][name]["value"] == pytest.approx(value, abs=1e-9), (key, name)
            difference = value - plain_metrics(whole, present)[name]
            assert part["differences"][name]["value"] == pytest.approx(difference, abs=1e-9), (key, name)
        right = np.mean([r["label"] == r["answer"] for r in members])
        assert part["image_score"]["value"] == pytest.approx(right, abs=1e-9)
    assert parts["class", "normal"]["metrics"] == {}
    old = parts["device", "old"]
    assert old["image_score_difference"]["high"] < 0 and not old["small"]
    assert parts["age", "80 and over"]["small"]
    worst = scores(out)["does_badly"][0]
    assert (worst["subgroup"]["kind"], worst["subgroup"]["name"]) == ("device", "old")
    assert [case["score"] for case in worst["cases"]] == [0.0] * 4
    lines = (out / "subgroups.csv").read_text().splitlines()
    assert any(line.startswith("device,old,60,60,no,mcc,") for line in lines)


def plain_metrics(rows: list[dict[str, Any]], classes: list[str]) -> dict[str, float]:
    """Means over the classes of the part; other answers are wrong and nobody's false alarm."""
    truth, answer = [r["label"] for r in rows], [r["answer"] if r["answer"] in classes else "other" for r in rows]
    specificity = [
        sum(t != c and a != c for t, a in zip(truth, answer, strict=True)) / max(sum(t != c for t in truth), 1)
        for c in classes
    ]
    average = {"labels": classes, "average": "macro", "zero_division": np.nan}
    return {
        "mcc": matthews_corrcoef(truth, answer),
        "recall": recall_score(truth, answer, **average),
        "precision": precision_score(truth, answer, **average),
        "specificity": float(np.mean(specificity)),
    }


def test_intervals_draw_patients_and_are_paired(tmp_path: Path) -> None:
    """The same draws by hand: whole patients, the part against all images of its classes."""
    truth, told, rows = labeled(tmp_path)
    out = tmp_path / "out"
    words = (f"truth={truth}", f"out={out}", "bootstrap.replicates=150", "bootstrap.seed=5")
    assert challenge("score", told, *words) == 0
    part = found(out)["device", "old"]
    names, member = np.unique([f"p{r['p']}" for r in rows], return_inverse=True)
    random = np.random.default_rng(5)
    right = np.array([r["label"] == r["answer"] for r in rows], float)
    old = np.array([r["device"] == "old" for r in rows])
    values = []
    for _ in range(150):
        weight = random.multinomial(len(names), np.full(len(names), 1 / len(names)))[member]
        values.append(np.average(right[old], weights=weight[old]) - np.average(right, weights=weight))
    low, high = np.quantile(values, [0.025, 0.975])
    difference = part["image_score_difference"]
    assert (difference["low"], difference["high"]) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def boxes(folder: Path, n: int = 24) -> tuple[Path, Path]:
    """Boxes are hit on one device and missed on every second image of the other."""
    truth = ["file,frame,category,x,y,w,h,patient,device,size_mm,width,height"]
    told = ["file,frame,category,confidence,x,y,w,h"]
    for i in range(n):
        device = "AB"[i % 2]
        side = 10 if i % 3 else 60
        truth.append(f"{i}.png,0,polyp,10,10,{side},{side},p{i // 2},{device},{side / 10:g},200,100")
        hit = device == "A" or i % 4 == 1
        told.append(f"{i}.png,0,polyp,0.9,{10 if hit else 120},10,{side},{side}")
    return write(folder / "truth.csv", *truth), write(folder / "told.csv", *told)


def test_box_subgroups_equal_a_file_of_their_own(tmp_path: Path) -> None:
    """A subgroup scored alone, from files that hold nothing else, gives the same metrics."""
    truth, told = boxes(tmp_path)
    out = tmp_path / "all"
    assert challenge("score", told, f"truth={truth}", f"out={out}", "bootstrap.replicates=20") == 0
    parts = found(out)
    assert {kind for kind, _ in parts} == {"device", "size", "size in the image"}
    for kind, name, keep in (
        ("device", "B", lambda i: i % 2 == 1),
        ("size in the image", "large", lambda i: i % 3 == 0),  # 60 of 200 pixels are medium: see below
        ("size", "6 to under 10 mm", lambda i: i % 3 == 0),
    ):
        key = (kind, "medium" if name == "large" else name)
        alone = [write(tmp_path / name / p.name, *only(p, keep)) for p in (truth, told)]
        own = tmp_path / name / "out"
        assert challenge("score", alone[1], f"truth={alone[0]}", f"out={own}", "bootstrap.replicates=0") == 0
        metrics = scores(own)["profiles"]["coco"]["metrics"]
        whole = scores(out)["profiles"]["coco"]["metrics"]
        for metric in ("map", "map_50", "map_75"):
            value = parts[key]["metrics"][metric]["value"]
            assert value == pytest.approx(metrics[metric]["value"], abs=1e-9), (key, metric)
            difference = value - whole[metric]["value"]
            assert parts[key]["differences"][metric]["value"] == pytest.approx(difference, abs=1e-9)
    assert parts["device", "A"]["image_score"]["value"] == 1.0
    drawn = parts["device", "B"]["metrics"]["map"]
    assert drawn["low"] < drawn["value"] < drawn["high"]  # patients are drawn, also inside a subgroup
    assert parts["device", "B"]["image_score"]["value"] == pytest.approx(0.5)


def only(path: Path, keep: Any) -> list[str]:
    lines = path.read_text().splitlines()
    return [lines[0], *(line for line in lines[1:] if keep(int(line.split(".")[0])))]


def test_mask_subgroups_and_images_of_the_best_and_the_worst(tmp_path: Path) -> None:
    images = tmp_path / "images"
    for folder in ("masks", "answers", "images"):
        (tmp_path / folder).mkdir()
    truth, told = ["file,frame,category,mask,device,patient"], ["file,frame,category,mask"]
    dice = {"A": [], "B": []}
    for i in range(8):
        device = "AB"[i % 2]
        mask, answer = np.zeros((2, 40, 60), np.uint8)
        mask[10:30, 10:30] = 255
        shift = 0 if device == "A" else 2 + i
        answer[10:30, 10 + shift : 30 + shift] = 255
        dice[device].append((20 - shift) / 20)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{i}.png")
        Image.fromarray(answer).save(tmp_path / "answers" / f"{i}.png")
        Image.fromarray(np.full((40, 60, 3), 100, np.uint8)).save(images / f"{i}.png")
        truth.append(f"{i}.png,0,polyp,masks/{i}.png,{device},p{i}")
        told.append(f"{i}.png,0,polyp,answers/{i}.png")
    paths = write(tmp_path / "truth.csv", *truth), write(tmp_path / "told.csv", *told)
    out = tmp_path / "out"
    words = (f"truth={paths[0]}", f"out={out}", f"images={images}", "bootstrap.replicates=50")
    assert challenge("score", paths[1], *words) == 0
    parts = found(out)
    for device, values in dice.items():
        assert parts["device", device]["metrics"]["dice"]["value"] == pytest.approx(np.mean(values), abs=1e-9)
    worst = scores(out)["does_badly"][0]
    assert worst["subgroup"]["name"] == "B"
    assert [case["file"] for case in worst["cases"]] == ["7.png", "5.png", "3.png", "1.png"]
    image = np.asarray(Image.open(out / worst["cases"][0]["image"]).convert("RGB")).astype(int)
    green = image[10:30, 10] - 100
    assert (green[:, 1] > green[:, 0]).mean() > 0.5  # the true outline is drawn
    page = (out / "index.html").read_text()
    assert "Where it does badly" in page and "device: B (small)" in page

    assert challenge("record", out, f"out={tmp_path / 'record'}") == 0
    record = json.loads((tmp_path / "record" / "record.json").read_text())
    recorded = record["results"][0]
    text = (tmp_path / "record" / "record.md").read_text()
    for name in recorded["images"]:
        assert (tmp_path / "record" / name).is_file() and f"({name})" in text
    stard = {item["number"]: item["content"] for item in record["stard_ai"]}
    assert "device: B" in stard["23"] and "device: A 4 images" in stard["25"]
    assert len(recorded["images"]) == 8 and "### Where it does badly" in text


def test_bad_ages_and_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = write(tmp_path / "told.csv", "a.png,x,0.9", "b.png,y,0.9")
    for column, value, part in (
        ("age", "old", "the age 'old' is no finite number"),
        ("age", "130", "lies outside 0 to 120"),
        ("size_mm", "-2", "is not above 0"),
    ):
        truth = write(tmp_path / "truth.csv", f"file,label,{column}", f"a.png,x,{value}", "b.png,y,")
        assert challenge("score", told, f"truth={truth}", f"out={tmp_path / 'out'}") == 2
        assert part in capsys.readouterr().err
    truth = write(tmp_path / "truth.csv", "file,label", "a.png,x", "b.png,y")
    assert challenge("score", told, f"truth={truth}", "subgroups.age_limits=[60,50]") == 2
    assert "write rising numbers" in capsys.readouterr().err


def test_traits_from_json_are_those_of_csv(tmp_path: Path) -> None:
    truth, told = boxes(tmp_path)
    data = []
    for line in truth.read_text().splitlines()[1:]:
        file, _, category, x, y, w, h, patient, device, size, width, height = line.split(",")
        finding = {"category": category, "box": [float(v) for v in (x, y, w, h)], "size_mm": float(size)}
        size_px = {"width": int(width), "height": int(height)}
        data.append({"file": file, "patient": patient, "device": device, **size_px, "results": [finding]})
    document = {"format": 1, "task": {"type": "detection", "classes": ["polyp"]}, "data": data}
    (tmp_path / "truth.json").write_text(json.dumps(document))
    for name in ("csv", "json"):
        words = (f"truth={tmp_path / f'truth.{name}'}", f"out={tmp_path / name}", "bootstrap.replicates=10")
        assert challenge("score", told, *words) == 0
    assert results(tmp_path / "csv")["scores"] == results(tmp_path / "json")["scores"]
