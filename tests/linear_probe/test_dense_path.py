"""Segmentation and detection from end to end: exact places at odd sizes, files that `challenge score` reads, heads."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from dense_sets import ODD_SIZES, oracle, write_set

import panendofm.linear_probe.dense.run as dense_run
from panendofm.backbone.networks import find_networks
from panendofm.imaging.images import open_image
from panendofm.linear_probe.dense.config import CENTER, DenseConfig, FitConfig
from panendofm.linear_probe.dense.data.images import Truth, read_truth
from panendofm.linear_probe.dense.data.splits import make_plan
from panendofm.linear_probe.dense.geometry import boxes_of_parts, cut, enlarge, shares_on_grid
from panendofm.linear_probe.dense.heads.detection_head import center_targets, decode, suppress
from panendofm.linear_probe.dense.heads.head_file import load_dense_head, save_dense_head
from panendofm.linear_probe.dense.heads.layers import LinearHead
from panendofm.linear_probe.dense.maps import MapMaker, Maps, feature_maps, maps_of_image
from panendofm.linear_probe.dense.predictor import COMPONENTS, predict_image
from panendofm.linear_probe.dense.results.page import write_results
from panendofm.linear_probe.dense.run import DenseBenchmark, run_dense, train_heads
from panendofm.records.documents import as_document
from panendofm.records.probe import ProbeFolder
from panendofm.scoring.detection.boxes import box_iou
from panendofm.scoring.statistics.config import BootstrapConfig

FIT = FitConfig(strengths=[1e-4, 1e-2], decoder_steps=60, published_steps=150, batch_images=8)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[DenseBenchmark, Path]:
    """An oracle network through the whole path, on images of odd sizes and aspect ratios."""
    folder = tmp_path_factory.mktemp("dense")
    data = write_set(folder / "blobs", 36)
    out = folder / "out"
    config = DenseConfig(data=[str(data)], out=str(out), fit=FIT, bootstrap=BootstrapConfig(replicates=200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_run, "find_networks", lambda words: [oracle()])
        benchmark = run_dense(["oracle"], config)
    write_results(benchmark, ProbeFolder(out))
    return benchmark, out


def test_an_oracle_maps_back_exactly_at_odd_sizes(finished: tuple[DenseBenchmark, Path]) -> None:
    benchmark, out = finished
    (outcome,) = benchmark.outcomes
    segmentation = outcome.results.tests["blobs"].segmentation
    assert segmentation is not None and segmentation.iou.value is not None and segmentation.iou.value >= 0.95
    with_finding = [r for r in outcome.images["blobs"] if r.has_finding]
    assert len({ODD_SIZES.index((p.width, p.height)) for r in with_finding for p in [benchmark.plan.images[r.row]]}) > 2
    assert min(r.iou for r in with_finding if r.iou is not None) >= 0.93
    assert segmentation.per_class["polyp"].left_empty == 1.0
    detection = outcome.results.tests["blobs"].detection[COMPONENTS]
    assert detection.map_50.value == pytest.approx(1.0)
    assert detection.map.value is not None and detection.map.value > 0.9
    assert (out / "index.html").read_text().count("data:image/jpeg") >= 6


def test_challenge_score_gives_the_same_figures(finished: tuple[DenseBenchmark, Path], tmp_path: Path) -> None:
    benchmark, out = finished
    (outcome,) = benchmark.outcomes
    values = as_document(outcome.results.tests["blobs"])
    for name in ("masks", "detections"):
        command = [
            *(sys.executable, "-m", "panendofm.challenge", "score", str(out / f"predictions/oracle/blobs/{name}.csv")),
            *(f"truth={out}/truth/blobs/{name}.csv", f"out={tmp_path / name}", "bootstrap.replicates=200"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    own = values["segmentation"]["per_class"]["polyp"]
    theirs = json.loads((tmp_path / "masks" / "results.json").read_text())["scores"]["per_class"]["polyp"]
    for mean in ("mean_over_images", "mean_over_images_with_a_finding"):
        for figure in ("iou", "dice", "hausdorff_95"):
            assert theirs[mean][figure] == pytest.approx(own[mean][figure])
    scores = json.loads((tmp_path / "detections" / "results.json").read_text())["scores"]
    found = scores["profiles"]["coco"]["metrics"]
    assert found["map_50"] == pytest.approx(values["detection"][outcome.results.detect_with]["map_50"], abs=1e-6)


def test_stored_heads_answer_as_trained_ones(finished: tuple[DenseBenchmark, Path]) -> None:
    benchmark, out = finished
    stored = load_dense_head(out / "heads" / "oracle" / "dense.safetensors")
    (outcome,) = benchmark.outcomes
    maker = MapMaker(oracle(), 384, torch.device("cpu"))
    assert maker.layout == stored.info.layout
    result = next(r for r in outcome.images["blobs"] if r.has_finding)
    labeled = benchmark.plan.images[result.row]
    image = open_image(labeled.path)
    told = predict_image(stored.heads, maps_of_image(maker, image), stored.info.layout.grid, image.height, image.width)
    written = out / "predictions" / "oracle" / "blobs" / "masks" / labeled.name
    assert np.array_equal(told.masks[0], cv2.imread(str(written), cv2.IMREAD_GRAYSCALE) == 255)
    assert told.boxes[COMPONENTS] and told.boxes[CENTER]


@pytest.mark.parametrize("kind", ["linear", "decoder", "published"])
def test_every_head_learns_and_survives_its_file(
    kind: str, tmp_path: Path, finished: tuple[DenseBenchmark, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = finished
    # A coarse grid: the decoder works on one four times as fine.
    config = DenseConfig(data=[str(out.parent / "blobs")], out=str(tmp_path), heads=[kind], fit=FIT, side_px=112)
    monkeypatch.setattr(dense_run, "find_networks", lambda words: [oracle()])
    (outcome,) = run_dense(["oracle"], config).outcomes
    assert outcome.heads.kind == kind and outcome.heads.detect_with == COMPONENTS
    assert outcome.results.tests["blobs"].segmentation.iou.value > 0.8
    stored = load_dense_head(tmp_path / "heads" / "oracle" / "dense.safetensors")
    x = torch.rand(2, stored.info.layout.grid[0] * stored.info.layout.grid[1], 1)
    again = stored.heads.segmentation.logits(x, stored.info.layout.grid)
    assert torch.allclose(again, outcome.heads.segmentation.logits(x, stored.info.layout.grid), atol=1e-5)
    if kind == "decoder":
        save_dense_head(tmp_path / "again.safetensors", stored.heads, stored.info.classes, oracle(), stored.info.layout)
        assert load_dense_head(tmp_path / "again.safetensors").heads.kind == "decoder"


# ------------------------------------------------------------------------------------------------- single parts


@pytest.mark.parametrize("shape", [(37, 53), (5, 97), (3, 2)])
def test_shares_are_areas(shape: tuple[int, int]) -> None:
    mask = np.random.default_rng(0).random((1, *shape)) > 0.5
    rows, columns = 7, 4
    # On a grid that both divide, areas are plain means.
    fine = np.kron(mask[0], np.ones((rows, columns)))
    expected = fine.reshape(rows, shape[0], columns, shape[1]).mean((1, 3))
    assert np.allclose(shares_on_grid(mask, (rows, columns))[0], expected, atol=1e-5)


def test_enlarged_fields_keep_their_middles() -> None:
    ramp = (np.arange(8, dtype=np.float32)[None, :] + 0.5) / 8 * np.ones((4, 1), np.float32)
    wide = enlarge(ramp[None], 20, 72)[0]
    x = (np.arange(72) + 0.5) / 72
    assert np.allclose(wide[:, 5:-5], x[5:-5], atol=1e-5)


def test_small_parts_are_dropped_and_boxes_are_tight() -> None:
    probability = np.zeros((1, 100, 200), np.float32)
    probability[0, 10:30, 40:90] = 0.9
    probability[0, 60:80, 100:160] = 0.6
    probability[0, 50:53, 3:6] = 1.0  # 9 of 20,000 pixels
    masks = cut(probability, [0.5])
    found = boxes_of_parts(masks[0], probability[0])
    assert [box for box, _ in found] == [(40, 10, 50, 20), (100, 60, 60, 20)]
    assert [sure for _, sure in found] == pytest.approx([0.9, 0.6])


def test_center_targets_decode_to_the_boxes() -> None:
    boxes = np.array([[0.10, 0.20, 0.30, 0.20], [0.55, 0.50, 0.25, 0.40]])
    objectness, sides = center_targets(boxes, (24, 24))
    logits = np.log(np.clip(objectness, 1e-4, 1 - 1e-4) / (1 - np.clip(objectness, 1e-4, 1 - 1e-4)))
    outputs = torch.from_numpy(np.concatenate([logits[None], sides.T])).view(5, 24, 24)
    found = decode(outputs, (24, 24))
    best = [box for box, sure in found if sure > 0.5]
    assert len(best) == 2
    assert np.diag(box_iou(np.array(sorted(map(tuple, best))), boxes)).min() > 0.95


def test_suppression_keeps_one_box_of_a_heap() -> None:
    boxes = np.array([[0.1, 0.1, 0.2, 0.2], [0.11, 0.1, 0.2, 0.2], [0.6, 0.6, 0.2, 0.2]])
    found = suppress(boxes, np.array([0.6, 0.9, 0.8]))
    assert [sure for _, sure in found] == [0.9, 0.8]
    assert 0.1 < found[0][0][0] < 0.11 and np.allclose(found[1][0], boxes[2])
    assert suppress(np.zeros((0, 4)), np.zeros(0)) == []


def test_predictions_have_a_row_for_every_image(finished: tuple[DenseBenchmark, Path]) -> None:
    benchmark, out = finished
    names = {benchmark.plan.images[row].name for row in benchmark.plan.folds[0].tests["blobs"].tolist()}
    for side in ("truth/blobs", "predictions/oracle/blobs"):
        for file in ("masks.csv", "detections.csv"):
            with (out / side / file).open(newline="") as stream:
                assert {row["file"] for row in csv.DictReader(stream)} == names


def test_nothing_is_chosen_on_the_test_side(tmp_path: Path) -> None:
    """Head, block, regularization, thresholds and detector are the same whatever the test images show."""
    data = write_set(tmp_path / "blobs", 24)
    plan = make_plan(DenseConfig(data=[str(data)]))
    (fold,) = plan.folds
    maps = feature_maps(find_networks(["pixels"]), plan.images, tmp_path / "maps", 128, 16, torch.device("cpu"))
    config = DenseConfig(fit=FitConfig(strengths=[1e-4, 1e-2]))
    truths = [read_truth(labeled, ("polyp",)) for labeled in plan.images]
    heads, tried, center = train_heads(maps["pixels"], fold, truths, config)
    values = np.array(maps["pixels"].values)
    for row in next(iter(fold.tests.values())).tolist():
        truths[row] = Truth(~truths[row].masks, [[(0.0, 0.0, 3.0, 3.0)]])
        values[row] = np.nan
    again, tried_again, center_again = train_heads(Maps(maps["pixels"].layout, values), fold, truths, config)
    assert (heads.kind, heads.thresholds, heads.detect_with) == (again.kind, again.thresholds, again.detect_with)
    assert [(c.description, c.validation_iou) for c in tried] == [
        (c.description, c.validation_iou) for c in tried_again
    ]
    assert center == center_again and isinstance(heads.segmentation, LinearHead)
    assert torch.equal(heads.segmentation.weight, again.segmentation.tensors()["weight"])
