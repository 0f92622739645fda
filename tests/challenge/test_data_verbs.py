"""check-data, merge, convert and record: real files with real faults."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from challenge_runs import answers, challenge, labels_truth, scores, write
from PIL import Image

from panendofm.challenge.files.annotations import COLUMNS
from panendofm.records.shards import Certificate, GuardedSet, Manifest, ShardFolder

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_detection_segmentation.json").read_text())


def texture(seed: int, size: tuple[int, int] = (160, 120)) -> np.ndarray:
    """A sharp image without a border."""
    noise = np.random.default_rng(seed).integers(60, 220, (size[1] // 4, size[0] // 4, 3), np.uint8)
    return np.asarray(cv2.resize(noise, size, interpolation=cv2.INTER_NEAREST))


def write_video(path: Path, frames: int = 4, title: str | None = None) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        if title:
            container.metadata["title"] = title
        for i in range(frames):
            frame = av.VideoFrame.from_ndarray(texture(i, (64, 48)), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def findings(folder: Path, out: Path, *words: object) -> tuple[int, set[tuple[str, str, str]], dict[str, Any]]:
    code = challenge("check-data", folder, f"out={out}", *words)
    document = json.loads(out.read_text())
    return code, {(f["level"], f["check"], f["file"]) for f in document["findings"]}, document


def test_a_clean_set_passes_and_every_fault_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for i in range(3):
        Image.fromarray(texture(i)).save(folder / f"a{i}.png")
    write_video(folder / "v.mp4")
    code, found, document = findings(folder, tmp_path / "clean.json", "text=false")
    assert code == 0 and not found and document["files"] == 4 and document["videos"] == 1 and not document["quality"]

    exif = Image.Exif()
    exif[0x013B] = "Dr. Somebody"
    Image.fromarray(texture(5)).save(folder / "exif.jpg", exif=exif)
    (folder / "copy.png").write_bytes((folder / "a0.png").read_bytes())
    (folder / "torn.png").write_bytes((folder / "a1.png").read_bytes()[:-500])
    (folder / "notes.docx").write_bytes(b"x")
    (folder / "sub").mkdir()
    Image.fromarray(texture(7)).save(folder / "sub" / "a2.png")
    Image.fromarray(texture(8)).save(folder / "2019-03-05_exam.png")
    Image.fromarray(texture(9)).save(folder / "old.tif")
    Image.fromarray(np.full((120, 160, 3), 9, np.uint8)).save(folder / "dark.png")
    write_video(folder / "named.mp4", title="patient Doe")
    code, found, document = findings(folder, tmp_path / "bad.json", "text=false")
    assert code == 1
    assert found == {
        ("error", "exif", "exif.jpg"),
        ("error", "content", "copy.png"),
        ("error", "readable", "torn.png"),
        ("error", "type", "notes.docx"),
        ("error", "name", "sub/a2.png"),
        ("remark", "name", "2019-03-05_exam.png"),
        ("remark", "type", "old.tif"),
        ("error", "metadata", "named.mp4"),
    }
    assert [q["file"] for q in document["quality"]] == ["dark.png"]


def test_burned_in_dates_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    image = np.full((240, 320, 3), 120, np.uint8)
    cv2.putText(image, "DOB 12/03/1954", (30, 120), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (255, 255, 255), 2, cv2.LINE_AA)
    Image.fromarray(image).save(folder / "p.png")
    code, found, _ = findings(folder, tmp_path / "r.json")
    assert code == 1 and ("error", "text", "p.png") in found


def test_dicom_tags(tmp_path: Path) -> None:
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset

    folder = tmp_path / "set"
    folder.mkdir()
    for name, patient in (("clean", ""), ("named", "Doe^Jane")):
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID = pydicom.uid.generate_uid()
        meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
        dataset = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
        dataset.PatientName, dataset.NumberOfFrames = patient, 3
        dataset.Rows, dataset.Columns, dataset.SamplesPerPixel, dataset.PlanarConfiguration = 120, 160, 3, 0
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 8, 8, 7, 0
        dataset.PhotometricInterpretation = "RGB"
        frames = [texture(i + 3 * bool(patient)) for i in range(2)]
        # The last frame of the named one is dark.
        frames.append(np.full((120, 160, 3), 9, np.uint8) if patient else texture(9))
        dataset.PixelData = b"".join(frame.tobytes() for frame in frames)
        dataset["PixelData"].VR = "OB"
        dataset.save_as(folder / f"{name}.dcm", enforce_file_format=True)
    (folder / "broken.dcm").write_bytes(b"no DICOM")
    code, found, document = findings(folder, tmp_path / "r.json", "text=false")
    whole = (folder / "clean.dcm").read_bytes()
    assert code == 1 and found == {
        ("error", "dicom", "named.dcm"),
        ("error", "dicom", "broken.dcm"),
        ("error", "readable", "broken.dcm"),
    }
    assert document["videos"] == 2 and [q["file"] for q in document["quality"]] == ["named.dcm"]
    (folder / "cut.dcm").write_bytes(whole[:-500])
    assert ("error", "readable", "cut.dcm") in findings(folder, tmp_path / "r2.json", "text=false")[1]
    assert any("PatientName" in f["what"] for f in document["findings"])


HEADER = ",".join(COLUMNS)


def act(serial: str, file: str, category: str, box: Any, who: str, step: str = "independent", **more: str) -> str:
    cells = dict.fromkeys(COLUMNS, "")
    cells |= {"serial": serial, "file": file, "frame": "0", "category": category, "step": step, "annotator": who}
    cells |= {"date": "2026-01-02", **more}
    if box is not None:
        cells |= dict(zip("xywh", map(str, box), strict=True))
    return ",".join(cells.values())


def golden_log(path: Path) -> Path:
    """The golden box cases as frames, each box by another doctor."""
    lines = [HEADER]
    for name, case in GOLDEN["box_consensus"]["cases"].items():
        for i, box in enumerate(case["boxes"]):
            lines.append(act(f"{name}-{i}", f"{name}.png", "polyp", box, f"doctor{i}"))
    return write(path, *lines)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_boxes_are_merged_by_the_golden_rules_and_the_log_only_grows(tmp_path: Path) -> None:
    log = golden_log(tmp_path / "log.csv")
    before = log.read_text()
    assert challenge("merge", log, f"out={tmp_path / 'gold'}", "date=2026-01-03") == 0
    after = log.read_text()
    assert after.startswith(before)
    merged: dict[str, list[dict[str, str]]] = {}
    for row in rows(log):
        if row["step"] == "cross":
            merged.setdefault(row["file"].removesuffix(".png"), []).append(row)
    for name, case in GOLDEN["box_consensus"]["cases"].items():
        kept = [row for row in merged[name] if row["decision"] != "arbitrate"]
        if case["next"] == "review":
            box = [float(kept[0][k]) for k in "xywh"]
            assert box == pytest.approx(case["result"], abs=1e-9), name
        else:
            assert not kept, name
            assert all(row["x"] == "" for row in merged[name])
    # Nothing is gold without a review, and a second run changes nothing.
    assert rows(tmp_path / "gold" / "gold.csv") == []
    assert challenge("merge", log, f"out={tmp_path / 'gold'}", "date=2026-01-04") == 0
    assert log.read_text() == after


def test_reviews_make_gold_that_can_be_scored_against(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        *(act(f"a{i}", "a.png", "polyp", [10 + i, 10, 40, 40], f"d{i}") for i in range(2)),
        *(act(f"b{i}", "b.png", "polyp", [10 + 50 * i, 10, 40, 40], f"d{i}") for i in range(2)),
        *(act(f"c{i}", "c.png", label, None, f"d{i}") for i, label in enumerate(["", ""])),
    ]
    log = write(tmp_path / "log.csv", HEADER, *lines)
    assert challenge("merge", log, f"out={tmp_path / 'gold'}") == 0
    by_file = {row["file"]: row["serial"] for row in rows(log) if row["step"] == "cross" and not row["decision"]}
    assert set(by_file) == {"a.png", "c.png"}
    arbitrated = act("x1", "b.png", "polyp", [12, 10, 40, 40], "d9", "arbitration", sources="b0 b1")
    reviews = [
        act("r1", "a.png", "", None, "d8", "review", sources=by_file["a.png"], decision="gold"),
        act("r2", "c.png", "", None, "d8", "review", sources=by_file["c.png"], decision="gold"),
        act("r3", "b.png", "", None, "d9", "review", sources="x1", decision="back"),
    ]
    log.write_text(log.read_text() + "\n".join([arbitrated, *reviews]) + "\n")
    assert challenge("merge", log, f"out={tmp_path / 'gold'}") == 0
    gold = rows(tmp_path / "gold" / "gold.csv")
    assert [(row["file"], row["category"]) for row in gold] == [("a.png", "polyp"), ("c.png", "")]
    document = json.loads((tmp_path / "gold" / "gold.json").read_text())
    assert document["waiting"]["annotation"] == 1 and document["agreement"]["mean_iou_of_boxes"] is not None
    told = write(
        tmp_path / "told.csv",
        "file,frame,category,confidence,x,y,w,h",
        "a.png,0,polyp,0.9,10,10,40,40",
        "c.png,0,,,,,,",
    )
    words = (f"truth={tmp_path / 'gold' / 'gold.csv'}", f"out={tmp_path / 'out'}", "bootstrap.replicates=10")
    assert challenge("score", told, *words) == 0
    # One doctor may not review what he alone annotated.
    alone = act("x2", "d.png", "polyp", [1, 1, 5, 5], "d7", "arbitration")
    log.write_text(
        log.read_text()
        + alone
        + "\n"
        + act("r4", "d.png", "", None, "d7", "review", sources="x2", decision="gold")
        + "\n"
    )
    capsys.readouterr()
    assert challenge("merge", log, f"out={tmp_path / 'gold'}") == 0
    assert "d7 reviews what d7 alone annotated" in capsys.readouterr().out


def test_labels_of_three_doctors(tmp_path: Path) -> None:
    answers_of = {"one.png": "aab", "two.png": "abc", "three.png": "bbb"}
    lines = [
        act(f"{file}{i}", file, label, None, f"d{i}")
        for file, text in answers_of.items()
        for i, label in enumerate(text)
    ]
    log = write(tmp_path / "log.csv", HEADER, *lines)
    assert challenge("merge", log, f"out={tmp_path / 'gold'}") == 0
    merged = {row["file"]: (row["category"], row["decision"]) for row in rows(log) if row["step"] == "cross"}
    assert merged == {"one.png": ("a", ""), "two.png": ("", "arbitrate"), "three.png": ("b", "")}
    document = json.loads((tmp_path / "gold" / "gold.json").read_text())
    # Fleiss by hand: P = (1/3 + 0 + 1)/3, shares a 3/9, b 5/9, c 1/9.
    by_chance = (9 + 25 + 1) / 81
    assert document["agreement"]["kappa"] == pytest.approx((4 / 9 - by_chance) / (1 - by_chance))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (act("1", "a.png", "p", [1, 1, 2, 2], "d", "independant"), "did you mean 'independent'?"),
        (act("1", "a.png", "p", [1, 1, 2, 2], ""), "'annotator' is empty"),
        (act("1", "a.png", "p", [1, 1, -2, 2], "d"), "must be above 0"),
        (act("1", "a.png", "p", None, "d", "review", sources="", decision="gold"), "names in 'sources'"),
        (act("1", "a.png", "p", None, "d", "review", sources="7", decision="gold"), "its source 7 is not above it"),
        (act("1", "a.png", "p", None, "d", "cross"), "names its sources"),
    ],
    ids=["step", "annotator", "box", "review", "source", "cross"],
)
def test_bad_logs_are_refused(line: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path / "log.csv", HEADER, line)
    assert challenge("merge", log, f"out={tmp_path / 'gold'}") == 2
    message = capsys.readouterr().err
    assert part in message and f"{log}, line 2" in message


def test_boxes_survive_a_tour_through_all_formats(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("a", "b"):
        Image.new("RGB", (200, 100)).save(images / f"{name}.jpg")
    coco = {
        "images": [{"id": i, "file_name": f"{n}.jpg", "width": 200, "height": 100} for i, n in enumerate("ab")],
        "categories": [{"id": 1, "name": "polyp"}, {"id": 2, "name": "tool"}],
        "annotations": [
            {"id": 1, "image_id": 0, "category_id": 1, "bbox": [10.5, 20, 30, 40]},
            {"id": 2, "image_id": 0, "category_id": 2, "bbox": [100, 5, 50, 60]},
        ],
    }
    first = tmp_path / "coco.json"
    first.write_text(json.dumps(coco))
    extra = (f"images={images}", "classes=[polyp,tool]")
    assert (
        challenge("convert", first, "source_format=coco", "target_format=yolo", f"out={tmp_path / 'yolo'}", *extra) == 0
    )
    (tmp_path / "yolo" / "classes.txt").unlink()
    assert (
        challenge(
            "convert", tmp_path / "yolo", "source_format=yolo", "target_format=csv", f"out={tmp_path / 'd.csv'}", *extra
        )
        == 0
    )
    found = rows(tmp_path / "d.csv")
    assert [[float(row[k]) for k in "xywh"] for row in found[:2]] == [
        pytest.approx([10.5, 20, 30, 40]),
        pytest.approx([100, 5, 50, 60]),
    ]
    assert found[2]["file"] == "b.jpg" and found[2]["category"] == ""
    assert (
        challenge(
            "convert", tmp_path / "d.csv", "source_format=csv", "target_format=json", f"out={tmp_path / 'p.json'}"
        )
        == 0
    )
    assert (
        challenge(
            "convert", tmp_path / "p.json", "source_format=json", "target_format=coco", f"out={tmp_path / 'c.json'}"
        )
        == 0
    )
    back = json.loads((tmp_path / "c.json").read_text())
    assert [a["bbox"] for a in back["annotations"]] == [
        pytest.approx([10.5, 20, 30, 40]),
        pytest.approx([100, 5, 50, 60]),
    ]


def test_voc_in_both_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "voc"
    box = "<bndbox><xmin>3</xmin><ymin>4</ymin><xmax>13</xmax><ymax>24</ymax></bndbox>"
    write(
        folder / "x.xml", f"<annotation><filename>x.png</filename><object><name>polyp</name>{box}</object></annotation>"
    )
    write(folder / "y.txt", "polyp 0.8 3 4 13 24")
    assert challenge("convert", folder, "source_format=voc", f"out={tmp_path / 'd.csv'}") == 0
    found = rows(tmp_path / "d.csv")
    assert [(r["file"], r["confidence"], r["w"], r["h"]) for r in found] == [
        ("x.png", "1", "10", "20"),
        ("y.jpg", "0.8", "10", "20"),
    ]
    write(folder / "y.txt", "polyp 0.8 13 4 3 24")
    assert challenge("convert", folder, "source_format=voc", f"out={tmp_path / 'e.csv'}") == 2
    assert "make no box" in capsys.readouterr().err and not (tmp_path / "e.csv").exists()
    assert challenge("convert", folder, "source_format=yolo", f"out={tmp_path / 'e.csv'}") == 2
    assert "images=…" in capsys.readouterr().err


def test_the_record_is_filled_and_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, file = labels_truth(tmp_path / "truth.csv"), answers(tmp_path / "a.csv", 0.9, 9.0, 1)
    assert challenge("score", file, f"truth={truth}", f"out={tmp_path / 'a'}", "bootstrap.replicates=50") == 0
    plan = write(tmp_path / "plan.yaml", "title: A detector", "consent: 'waived | by the board'", "ethics_review:")
    shards = ShardFolder(tmp_path / "shards")
    shards.path.mkdir()
    certificate = Certificate([GuardedSet("medico", 8740)], 1000, 12, [], {"hash": "dct"}, [])
    shards.write_manifest(Manifest([], 988, leakage=certificate))
    words = (f"plan={plan}", f"shards={shards.path}", f"out={tmp_path / 'record'}")
    assert challenge("record", tmp_path / "a", *words) == 0
    text = (tmp_path / "record" / "record.md").read_text()
    document = json.loads((tmp_path / "record" / "record.json").read_text())
    assert "| What is evaluated | A detector | TRIPOD+AI 1" in text
    assert "waived \\| by the board" in text and "| Ethics review | **missing** |" in text
    assert "kept out of training: medico" in text and "dropped as copies: 12" in text
    assert document["independence"]["training_frames"] == 988
    mcc = scores(tmp_path / "a")["profiles"]["medico2018"]["metrics"]["mcc"]
    assert f"| mcc | {mcc['value']:.4f} ({mcc['low']:.4f}–{mcc['high']:.4f}) |" in text
    assert str(tmp_path) not in text and str(tmp_path) not in json.dumps(document)
    items = {item["number"]: item["content"] for item in document["stard_ai"]}
    assert len(items) == 48 and len({number.rstrip("abcd") for number in items}) == 40
    assert items["1"] == "A detector" and items["6"] == "waived | by the board" and items["36"] is None
    assert "kept out of training: medico" in items["29"] and "988 frames" in items["15b"]
    assert f"mcc {mcc['value']:.4f} ({mcc['low']:.4f}–{mcc['high']:.4f})" in items["31"]
    assert items["23"] is None  # nobody said who the patients are
    assert "| 36 | Registration | **missing** |" in text and "STARD-AI" in capsys.readouterr().out
    write(plan, "titel: A detector")
    assert challenge("record", tmp_path / "a", *words) == 2
    assert "did you mean 'title'?" in capsys.readouterr().err
