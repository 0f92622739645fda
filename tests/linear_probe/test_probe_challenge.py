"""From a head to a challenge: official splits, label fractions, timed answers, video reports, the shortcut test."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.atlas.config import SplitConfig
from panendofm.atlas.official import official_split
from panendofm.atlas.panendox.tasks import Level, Task
from panendofm.atlas.samples import Sample
from panendofm.atlas.split import SPLITS, TEST, TRAIN, VALIDATION
from panendofm.backbone import FeatureKind, Preprocessing
from panendofm.backbone.networks import find_network
from panendofm.linear_probe.__main__ import STAGE
from panendofm.linear_probe.config import HeadConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.head_file import save_head
from panendofm.linear_probe.heads.head_run import open_head
from panendofm.linear_probe.heads.probe import Head
from panendofm.linear_probe.inference.evidence import in_whole_image, patch_evidence, weighted_center
from panendofm.linear_probe.results.label_fractions import UNUSED, training_subset
from panendofm.runtime.command_line import run_stage
from panendofm.scoring.detection.timeline import zone

Run = Callable[..., tuple[int, str]]
CLASSES = ("normal-cecum", "polyps", "ulcerative-colitis")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*words: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            run_stage(STAGE, [str(word) for word in words])
        printed = capsys.readouterr()
        return int(stop.value.code or 0), printed.out + printed.err

    return command


def image(c: int, seed: int, size: tuple[int, int] = (80, 72)) -> Image.Image:
    """Classes differ in color, images of one in texture."""
    texture = np.random.default_rng(1000 * c + seed).integers(0, 110, (10, 10, 3)).astype(np.uint8)
    texture[..., c] += 110
    return Image.fromarray(texture).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 images of three classes; train and test as a CSV says; two images of test are in training as well."""
    root = tmp_path_factory.mktemp("data")
    lines = ["file,label,split"]
    for c, name in enumerate(CLASSES):
        for i in range(16):
            path = root / f"{name}-{i:02d}.png"
            image(c, i).save(path)
            lines.append(f"{path.name},{name},{'test' if i >= 10 else 'train'}")
    (root / "twin.png").write_bytes((root / "polyps-12.png").read_bytes())
    lines.append("twin.png,polyps,train")
    nearly = Image.open(root / "normal-cecum-11.png")
    nearly.save(root / "near.jpg", quality=95)
    lines.append("near.jpg,normal-cecum,train")
    (root / "official.csv").write_text("\n".join(lines) + "\n")
    return root


SMALL = ("bootstrap.replicates=40", "grid.training.max_epochs=15", "protocol=converged")


def results(folder: str = "r") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
    return found


def test_an_official_split_is_followed_and_what_crosses_it_is_named(run: Run, data: Path) -> None:
    code, printed = run("pixels", f"data={data / 'official.csv'}", "out=r", *SMALL, "label_fractions=[0.1,0.5,1]")
    assert code == 0, printed
    assert "2 groups cross it with 2 test images" in printed
    report = json.loads(Path("r/official.split.json").read_text())
    assert report["official"] and report["validation_taken_from_training"]
    # 6 of each class are test; the twin counts there once, so 18.
    assert report["images"]["test"] == 18 and report["images"]["validation"] >= 3
    named = {name for group in report["crossing_named"] for name in group}
    assert {"near.jpg", "normal-cecum-11.png"} <= named and not any("/" in name for name in named)
    figures = results()["results"]["official"]["pixels"]
    without = figures["without_crossing_groups"]
    assert without["images"] == 16 and without["left_out"] == 2 and without["mcc"] is not None
    assert figures["images"] == 18
    risk = figures["risk_coverage"]["risk"]
    assert risk["1"]["value"] == pytest.approx(1 - figures["accuracy"])
    curve = figures["label_fractions"]
    assert [point["share"] for point in curve] == [0.1, 0.5, 1.0]
    assert [point["images"] for point in curve] == sorted(point["images"] for point in curve)
    assert curve[-1]["mcc"]["value"] == pytest.approx(figures["mcc"])
    with Path("r/test/official.csv").open() as file:
        truth = list(csv.DictReader(file))
    assert len(truth) == 18 and {row["label"] for row in truth} == set(CLASSES)


def sample(name: str, label: str, official: str, *links: str) -> Sample:
    return Sample(name, name, ("d",), (), (label,), links, official)


def test_validation_is_taken_in_whole_groups_and_leaves_every_class_to_training() -> None:
    samples = [sample(f"{label}{i}", label, "train", f"patient {label}{i // 4}") for label in "ab" for i in range(40)]
    samples += [sample(f"t{label}{i}", label, "test", f"patient t{i}") for label in "ab" for i in range(5)]
    samples.append(sample("rare", "c", "train", "patient rare"))
    split, crossing = official_split(samples, SplitConfig())
    assert crossing.groups == 0
    assert (split.sides[80:90] == TEST).all() and split.sides[90] == TRAIN
    for number in np.unique(split.groups):
        assert len(set(split.sides[split.groups == number].tolist())) == 1
    share = (split.sides == VALIDATION).sum() / 80
    assert 0.05 <= share <= 0.2
    given = [sample(s.sha256, s.classes[0], SPLITS[i % 3]) for i, s in enumerate(samples[:9])]
    assert official_split(given, SplitConfig())[0].sides.tolist() == [0, 1, 2] * 3


def test_smaller_training_subsets_lie_inside_larger_ones() -> None:
    random = np.random.default_rng(0)
    targets = np.eye(3, dtype=bool)[random.integers(0, 3, 300)]
    sides, groups = random.choice([TRAIN, TRAIN, VALIDATION, TEST], 300), np.arange(300) // 3
    previous: set[int] = set()
    for share in (0.01, 0.05, 0.25, 0.5, 1.0):
        subset = training_subset(targets, sides, groups, share, 0)
        kept = set(np.flatnonzero(subset == TRAIN).tolist())
        assert previous <= kept and (subset[sides != TRAIN] == sides[sides != TRAIN]).all()
        assert targets[list(kept)].any(0).all()  # every class can be learned
        previous = kept
    assert len(previous) == (sides == TRAIN).sum()
    tiny = training_subset(targets, sides, groups, 0.01, 0)
    assert 0 < (tiny == TRAIN).sum() < 0.1 * (sides == TRAIN).sum() and (tiny == UNUSED).any()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("file,label,split\n{0},a,dev\n", "line 2: the split is 'dev'"),
        ("file,label,split\n{0},a,train\n{1},b,\n", "line 3: the split is empty"),
        ("file,label,split\n{0},a,train\n{1},b,train\n", "no image for test"),
    ],
    ids=["word", "empty", "side"],
)
def test_bad_official_splits_are_named(text: str, part: str, run: Run, data: Path) -> None:
    files = [str(data / f"polyps-0{i}.png") for i in range(2)]
    Path("bad.csv").write_text(text.format(*files))
    code, printed = run("pixels", "data=bad.csv", "out=r")
    assert code == 2 and part in printed


@pytest.fixture(scope="module")
def head(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head on pixels that tells the three classes apart."""
    out = tmp_path_factory.mktemp("head")
    with pytest.raises(SystemExit) as stop:
        words = ["pixels", f"data={data / 'official.csv'}", f"out={out}", *SMALL]
        run_stage(STAGE, words)
    assert not stop.value.code
    return out / "heads" / "pixels" / "official.safetensors"


def test_timed_answers_are_a_submission(run: Run, data: Path, head: Path) -> None:
    truth = head.parent.parent.parent / "test" / "official.csv"
    code, printed = run("time", head, truth, f"root={data}", "out=s.csv", "repeats=2")
    assert code == 0 and "with decoding" in printed
    with Path("s.csv").open() as file:
        rows = list(csv.DictReader(file))
    timing = json.loads(Path("s.timing.json").read_text())
    whole, alone = timing["with_decoding"], timing["network_alone"]
    assert len(rows) == 18 == timing["images"] and len(whole["mean_ms_of_repeats"]) == 2
    assert whole["mean_ms"] > alone["mean_ms"] > 0 and whole["fps"] == pytest.approx(1000 / whole["mean_ms"])
    assert np.mean([float(row["time_ms"]) for row in rows]) == pytest.approx(whole["mean_ms"], rel=1e-2)
    assert timing["peak_memory_mb"] > 50 and timing["threads"] >= 1
    code, printed = run("predict", head, truth, f"root={data}", "out=-")
    lines = [line for line in printed.splitlines() if line.startswith(CLASSES)]
    assert code == 0 and printed.startswith("file,category,confidence,time_ms") and len(lines) == 18
    with truth.open() as file:
        wanted = {row["file"]: row["label"] for row in csv.DictReader(file)}
    right = sum(wanted[row["file"]] == row["category"] for row in rows)
    assert right >= 16


EVENTS = [("normal-cecum", 4), ("polyps", 5), ("normal-cecum", 3), ("ulcerative-colitis", 4)]


def write_examination(path: Path, flicker: bool = False) -> None:
    """Events of whole seconds at 10 frames a second; with flicker, one frame of another class in the middle of each."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 80, 72, "yuv420p", 2_000_000
        for number, (label, seconds) in enumerate(EVENTS):
            for i in range(10 * seconds):
                c = CLASSES.index(label)
                shown = (c + 1) % 3 if flicker and i == 5 * seconds else c
                frame = av.VideoFrame.from_ndarray(np.asarray(image(shown, 100 + number)), format="rgb24")
                container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.mark.parametrize("flicker", [False, True])
def test_a_report_finds_the_events(run: Run, head: Path, flicker: bool) -> None:
    write_examination(Path("v.mp4"), flicker)
    at, lines = 0, ["start_seconds,end_seconds,label"]
    for label, seconds in EVENTS:
        lines.append(f"{at},{at + seconds},{label}")
        at += seconds
    Path("truth.csv").write_text("\n".join(lines) + "\n")
    code, printed = run("report", head, "v.mp4", "truth=truth.csv", "out=report")
    assert code == 0, printed
    found = json.loads(Path("report/report.json").read_text())
    assert found["order_of_events"] == [label for label, _ in EVENTS]
    assert found["against_truth"]["events_found"] == 4 and found["against_truth"]["segments"] == 4
    for segment, start in zip(found["segments"], (0, 4, 9, 12), strict=True):
        assert abs(segment["start_seconds"] - start) <= 0.4
        assert segment["start_seconds"] <= segment["key_seconds"] < segment["end_seconds"] + 0.2
    assert found["frames"] == 80 and sum(found["shares"].values()) == pytest.approx(1)
    assert len(found["rating_form"]) == 5 and str(Path.cwd()) not in json.dumps(found)
    text = Path("report/report.txt").read_text()
    assert "colon polyp (colon, pathological findings)" in text and "not for diagnosis" in text
    page = Path("report/report.html").read_text()
    assert page.count("<figure>") == 4 and "data:image/jpeg" in page


def test_reports_refuse_what_is_no_video(run: Run, head: Path) -> None:
    Path("no.mp4").write_bytes(b"nothing")
    for words, part in (
        ((head, "no.mp4"), "cannot read the video no.mp4"),
        ((head, "gone.mp4"), "does not exist"),
        ((head, "no.mp4", "fps=0"), "must be above 0"),
    ):
        code, printed = run("report", *words, "out=report")
        assert code == 2 and part in printed
    assert not Path("report").exists()


def test_places_follow_the_evidence(tmp_path: Path) -> None:
    """A head that likes brightness finds the bright corner, and in the whole image, not in the crop."""
    network = find_network("pixels")
    weight = torch.zeros(768, 2)
    weight[:, 1] = 0.01
    made = Head("by hand", Columns("cls", 0, 768), weight, torch.zeros(2), 1.0, 0.0)
    task = Task("t", "t", ("dark", "bright"), (Level("", 0, 2),), True, np.zeros(0, np.int64), np.zeros((0, 2), bool))
    path = tmp_path / "h.safetensors"
    save_head(path, made, task, network, FeatureKind())
    run = open_head(path, HeadConfig(device="cpu"))
    corners = {"top-left": (0, 0), "top-right": (170, 0), "bottom-left": (0, 170), "bottom-right": (170, 170)}
    for name, (x, y) in corners.items():
        pixels = np.zeros((240, 240, 3), np.uint8)
        pixels[y + 20 : y + 50, x + 20 : x + 50] = 255
        evidence = patch_evidence(run, run.prepare([Image.fromarray(pixels)]))
        assert evidence is not None and evidence.shape == (1, 2, 16, 16)
        center = weighted_center(evidence[0, 1])
        assert center is not None
        assert zone(*in_whole_image(center, (240, 240), network.preprocessing)) == name
    assert weighted_center(torch.zeros(4, 4)) is None
    wide = in_whole_image((0.5, 0.5), (400, 200), Preprocessing(resize_px=100, crop_px=80))
    assert wide == pytest.approx((0.5, 0.5))
    edge = in_whole_image((0.0, 0.0), (400, 200), Preprocessing(resize_px=100, crop_px=80))
    assert edge == pytest.approx((60 / 200, 10 / 100))


def with_box(image: Image.Image) -> Image.Image:
    """The teal display of a scope's position in the lower left."""
    pixels = np.asarray(image.resize((320, 288))).copy()
    cv2.rectangle(pixels, (6, 200), (90, 280), (20, 160, 140), -1)
    return Image.fromarray(pixels)


def test_a_head_that_looks_at_the_position_box_is_found_out(run: Run, tmp_path: Path) -> None:
    """In training only polyps have the box, and nothing else tells them apart: without the box the head is lost."""
    for name, boxed in (("polyps", True), ("normal-cecum", False)):
        for i in range(24):
            path = tmp_path / "train" / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            own = image(0, i if boxed else 500 + i, (320, 288))
            (with_box(own) if boxed else own).save(path)
    code, printed = run("pixels", "data=train", "out=r", *SMALL)
    assert code == 0, printed
    code, printed = run("shortcut", "r/heads/pixels/train.safetensors", "train", "out=s.json")
    assert code == 0, printed
    found = json.loads(Path("s.json").read_text())
    assert found["with_box"] == 24 and set(found["classes"]) == {"polyps"}
    assert found["right_with_box"] > 0.9 and found["right_painted_over"] < 0.5 and found["p"] < 0.01
