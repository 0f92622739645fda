"""Boxes and masks against the libraries that others use, and bootstrap replicates against plain resampling."""

from __future__ import annotations

import numpy as np
import pytest

from panendofm.challenge.profile import LabelProfile, profiles_of
from panendofm.scoring import masks
from panendofm.scoring.detection import average_precision as ap
from panendofm.scoring.detection import frames as detection
from panendofm.scoring.detection.boxes import Boxes

PROFILE = ap.COCO


def random_case(seed: int) -> tuple[Boxes, Boxes, int]:
    """Few places and few confidences, so that boxes overlap, compete and tie."""
    random = np.random.default_rng(seed)
    images = int(random.integers(1, 6))

    def rows(count: int) -> list[tuple[int, list[float], float]]:
        return sorted(
            (
                int(random.integers(images)),
                [float(v) for v in (*random.integers(0, 40, 2), *random.integers(5, 60, 2))],
                float(random.choice([0.1, 0.3, 0.3, 0.5, 0.9, 0.95])),
            )
            for _ in range(count)
        )

    true = rows(int(random.integers(1, 12)))
    # Some detections are moved true boxes, or hardly anything would match.
    moved = [
        (p, [b[0] + float(random.integers(-4, 5)), b[1], b[2], b[3]], float(random.random()))
        for p, b, _ in true
        if random.random() < 0.7
    ]
    found = sorted([*rows(int(random.integers(0, 15))), *moved], key=lambda row: row[0])
    return Boxes.of(true), Boxes.of(found), images


def coco_stats(truth: Boxes, found: Boxes, images: int) -> np.ndarray:
    reference = pytest.importorskip("faster_coco_eval")
    dataset = {
        "images": [{"id": i + 1, "width": 200, "height": 200} for i in range(images)],
        "categories": [{"id": 1, "name": "polyp"}],
        "annotations": [
            {
                "id": i + 1,
                "image_id": int(p) + 1,
                "category_id": 1,
                "bbox": box.tolist(),
                "area": float(box[2] * box[3]),
                "iscrowd": 0,
            }
            for i, (p, box) in enumerate(zip(truth.image, truth.box, strict=True))
        ],
    }
    api = reference.COCO(dataset)
    results = [
        {"image_id": int(p) + 1, "category_id": 1, "bbox": box.tolist(), "score": float(c)}
        for p, box, c in zip(found.image, found.box, found.confidence, strict=True)
    ]
    evaluation = reference.COCOeval_faster(api, api.loadRes(results), iouType="bbox", print_function=lambda *_: None)
    evaluation.evaluate()
    evaluation.accumulate()
    precision = evaluation.eval["precision"]  # [T, R, K, A, M]
    return np.asarray(precision[:, :, 0, 0, -1].mean(axis=1))  # [T]


@pytest.mark.parametrize("block", range(4))
def test_ap_is_that_of_faster_coco_eval(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        truth, found, images = random_case(seed)
        if not len(found):
            continue
        ours = [ap.average_precision(m, "101 points") for m in ap.match_class(truth, found, PROFILE).values()]
        assert ours == pytest.approx(coco_stats(truth, found, images).tolist(), abs=1e-9), seed


def resampled(boxes: Boxes, copies: np.ndarray) -> Boxes:
    """A set in which image i is a copy of image copies[i]."""
    parts = [(boxes.take(boxes.image == p), i) for i, p in enumerate(copies)]
    return Boxes(
        np.concatenate([np.full(len(b), i) for b, i in parts]),
        np.concatenate([b.box for b, _ in parts]),
        np.concatenate([b.confidence for b, _ in parts]),
    )


@pytest.mark.parametrize("curve", ["101 points", "all points"])
def test_replicates_are_the_ap_of_resampled_images(curve: ap.Curve) -> None:
    random = np.random.default_rng(5)
    for seed in range(30):
        truth, found, images = random_case(seed)
        # Distinct confidences: between equal ones of different images a resampled set has another order.
        found = Boxes(found.image, found.box, random.permutation(len(found)) / 100)
        matches = ap.match_class(truth, found, PROFILE)[0.5]
        weights = random.multinomial(images, [1 / images] * images, size=4).astype(float)
        values = ap.average_precision_replicates(matches, curve, weights)
        for row, value in zip(weights, values, strict=True):
            copies = np.repeat(np.arange(images), row.astype(int))
            again = ap.match_class(resampled(truth, copies), resampled(found, copies), PROFILE)[0.5]
            assert value == pytest.approx(ap.average_precision(again, curve), abs=1e-12, nan_ok=True), seed


def test_detections_outside_the_area_are_neither_right_nor_wrong() -> None:
    """As COCO's area ranges: a large box and its detection leave the score of small boxes alone."""
    truth = Boxes.of([(0, [0, 0, 50, 50], 1.0), (0, [100, 100, 300, 300], 1.0)])
    found = Boxes.of([(0, [100, 100, 300, 300], 0.9), (0, [500, 0, 300, 300], 0.8), (0, [0, 0, 50, 50], 0.7)])
    profile = ap.COCO
    small = ap.match_class(truth, found, profile, ap.AREAS["small"])[0.5]
    assert ap.average_precision(small, "101 points") == 1.0
    large = ap.match_class(truth, found, profile, ap.AREAS["large"])[0.5]
    assert ap.average_precision(large, "101 points") == 1.0
    medium = ap.match_class(truth, found, profile, ap.AREAS["medium"])[0.5]
    assert np.isnan(ap.average_precision(medium, "101 points"))
    everything = ap.match_class(truth, found, profile)[0.5]
    assert ap.average_precision(everything, "101 points") < 1


def test_froc_by_hand_and_under_weights() -> None:
    truth = Boxes.of([(0, [0, 0, 10, 10], 1.0), (1, [0, 0, 10, 10], 1.0)])
    found = Boxes.of([(0, [50, 50, 5, 5], 0.9), (0, [0, 0, 10, 10], 0.8), (1, [50, 50, 5, 5], 0.7)])
    found = Boxes.of([*zip(found.image, found.box.tolist(), found.confidence, strict=True), (1, [0, 0, 10, 10], 0.6)])
    matches = ap.match_class(truth, found, PROFILE)[0.5]
    # Four frames: one alarm is 0.25 a frame, two are 0.5.
    assert detection.froc(matches, 4).tolist() == [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    weighted = detection.froc(matches, 4, np.array([[1.0, 1, 1, 1], [2, 0, 1, 1], [0, 0, 4, 0]]))
    assert weighted[0].tolist() == [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert weighted[1].tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert np.isnan(weighted[2]).all()


def test_hd95_is_that_of_monai() -> None:
    metrics = pytest.importorskip("monai.metrics")
    import torch

    random = np.random.default_rng(3)
    for _ in range(25):
        size = tuple(int(s) for s in random.integers(8, 40, 2))
        pair = []
        for _side in range(2):
            mask = np.zeros(size, bool)
            for _blob in range(int(random.integers(1, 4))):
                y, x = (int(random.integers(0, s)) for s in size)
                h, w = (int(v) for v in random.integers(1, 14, 2))
                mask[y : y + h, x : x + w] = True
            pair.append(mask | (random.random(size) < 0.01))
        truth, prediction = pair
        ours = masks.surface_distances(truth, prediction)

        def monai(percentile: float | None, t: np.ndarray = truth, p: np.ndarray = prediction) -> float:
            shaped = [torch.from_numpy(m[None, None].astype(np.float32)) for m in (p, t)]
            return float(
                metrics.compute_hausdorff_distance(*shaped, include_background=True, percentile=percentile).item()
            )

        assert ours.hausdorff_95 == pytest.approx(monai(95), abs=1e-5)
        assert ours.hausdorff == pytest.approx(monai(None), abs=1e-5)


def test_profiles_are_scikit_learns() -> None:
    sk = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(1)
    for _ in range(60):
        classes, n = int(random.integers(2, 7)), int(random.integers(5, 60))
        truth, answer = random.integers(0, classes, n), random.integers(0, classes, n)
        answer = np.where(random.random(n) < 0.5, truth, answer)
        every = np.arange(classes)
        confusion = sk.confusion_matrix(truth, answer, labels=every).astype(float)
        macro = profiles_of(LabelProfile)["medico2018"].metrics(confusion)
        micro = profiles_of(LabelProfile)["biomedia2019"].metrics(confusion)
        keywords = {"labels": every, "zero_division": 0}
        for average, ours in (("macro", macro), ("micro", micro)):
            assert ours["recall"] == pytest.approx(sk.recall_score(truth, answer, average=average, **keywords))
            assert ours["precision"] == pytest.approx(sk.precision_score(truth, answer, average=average, **keywords))
            assert ours["f1"] == pytest.approx(sk.f1_score(truth, answer, average=average, **keywords))
            assert ours["mcc"] == pytest.approx(sk.matthews_corrcoef(truth, answer), abs=1e-12)
