"""Every block of the golden file of detection, segmentation, video, patient and consensus figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, MaskProfile, find_profile
from panendofm.scoring import masks
from panendofm.scoring.classification import rates
from panendofm.scoring.detection import average_precision as ap
from panendofm.scoring.detection import frames as detection
from panendofm.scoring.detection import video
from panendofm.scoring.detection.boxes import Boxes, Matches, box_iou
from panendofm.scoring.detection.patients import Lesion, Patient, patient_metrics
from panendofm.scoring.statistics import consensus
from panendofm.scoring.statistics.generalization import generalization

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "metrics_detection_segmentation.json").read_text())


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("case", GOLDEN["box_iou"], ids=str)
def test_overlap_of_boxes(case: dict[str, Any]) -> None:
    assert box_iou([case["a"]], [case["b"]])[0, 0] == near(case["iou"])
    assert box_iou([case["a"]], [case["b"]], extra_px=1)[0, 0] == near(case["iou_plus_one_pixel"])


DETECTION = GOLDEN["detection"]


def boxes_of(name: str) -> tuple[Boxes, Boxes]:
    images = list(DETECTION["truth"])

    def rows(source: dict[str, Any]) -> Boxes:
        return Boxes.of(
            [
                (number, row["box"], row.get("confidence", 1.0))
                for number, image in enumerate(images)
                for row in source[image]
                if row["category"] == name
            ]
        )

    return rows(DETECTION["truth"]), rows(DETECTION["predictions"])


def matches_of(name: str, profile: str) -> dict[float, Matches]:
    return ap.match_class(*boxes_of(name), find_profile(BoxProfile, profile).rules)


@pytest.mark.parametrize("name", DETECTION["classes"])
def test_matches_at_one_half(name: str) -> None:
    found = matches_of(name, "coco")[0.5]
    assert [
        {"confidence": float(c), "true_positive": bool(t), "iou": near(float(i))}
        for c, t, i in zip(found.confidence, found.true_positive, found.iou, strict=True)
    ] == DETECTION["matches_at_0.5"][name]
    assert ap.mean_iou_of_true(found) == near(DETECTION["mean_iou_of_true_positives_at_0.5"][name])
    expected = DETECTION["at_confidence_0.5_iou_0.5"][name]
    counts = detection.box_counts(4, found, 0.5)
    assert {name: float(getattr(counts, name)) for name in ("tp", "fp", "fn")} == expected
    twice = detection.box_counts(4, found, 0.5, np.full((2, 4), 2.0))
    assert twice.tp.tolist() == [2 * expected["tp"]] * 2 and twice.fn.tolist() == [2 * expected["fn"]] * 2


def test_average_precision_in_three_definitions() -> None:
    coco, endocv = DETECTION["coco_101_points"], DETECTION["endocv_plus_one_pixel_all_points"]
    everything = np.ones((1, len(DETECTION["truth"])))
    plain, all_points, older = ({}, {}, {})
    for name in DETECTION["classes"]:
        found = matches_of(name, "coco")
        plain[name] = {str(t): ap.average_precision(m, "101 points") for t, m in found.items()}
        all_points[name] = {str(t): ap.average_precision(m, "all points") for t, m in found.items()}
        old = matches_of(name, "endocv2020")
        older[name] = {str(t): ap.average_precision(m, "all points") for t, m in old.items()}
        assert plain[name] == near(coco["ap"][name])
        assert all_points[name]["0.5"] == near(DETECTION["all_points"]["ap_50"][name])
        assert older[name] == near(endocv["ap"][name])
        ious = {str(t): float(ap.mean_iou_of_all(m, everything)[0]) for t, m in old.items()}
        assert ious == near(endocv["mean_iou_false_positives_count_0"][name])

    def mean(table: dict[str, dict[str, float]], *thresholds: str) -> float:
        return float(np.mean([[row[t] for t in thresholds or row] for row in table.values()]))

    assert mean(plain, "0.5") == near(coco["map_50"])
    assert mean(plain, "0.75") == near(coco["map_75"])
    assert mean(plain) == near(coco["map_50_95"])
    assert mean(all_points, "0.5") == near(DETECTION["all_points"]["map_50"])
    assert mean(all_points) == near(DETECTION["all_points"]["map_50_95"])
    assert mean(older) == near(endocv["map_25_75"])
    profile = find_profile(BoxProfile, "endocv2020")
    boxes = MatchedBoxes(profile.rules, {name: boxes_of(name) for name in DETECTION["classes"]}, everything)
    found = profile.metrics(boxes)
    assert found["map"][0] == near(endocv["map_25_75"])
    assert found["iou_of_all_boxes"][0] == near(endocv["iou_25_75"])
    assert found["score"][0] == near(endocv["score_0.6_map_plus_0.4_iou"])


@pytest.mark.parametrize("reading", ["presence", "presence_and_place"])
def test_frames_by_presence_and_place(reading: str) -> None:
    found = matches_of("polyp", "coco")[0.5]
    counts = detection.frame_counts(4, found, place=reading != "presence")
    expected = GOLDEN["frame_level_polyp_at_0.5"][reading]
    assert {name: float(getattr(counts, name)) for name in ("tp", "fp", "fn", "tn")} == expected


def test_points_in_findings() -> None:
    found, mask = GOLDEN["localisation_points"], np.zeros((100, 100), bool)
    mask[20:40, 30:60] = mask[70:80, 70:80] = True
    count, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    counts = detection.points_in_parts(parts, count - 1, found["points"])
    as_counts = rates.Counts.of(counts.tp, counts.fp, counts.fn, 0)
    ours = {
        **vars(counts),
        "precision": float(rates.precision(as_counts)),
        "recall": float(rates.recall(as_counts)),
        "f1": float(rates.f_score(as_counts)),
        "f2": float(rates.f_score(as_counts, 2)),
    }
    assert ours == near(found["expected"])


def test_detection_latency() -> None:
    latencies = []
    for case in GOLDEN["detection_latency"]:
        frames = video.detection_latency(case["visible"], case["true_detections"])
        assert frames == case["frames"]
        assert (None if frames is None else frames / case["fps"]) == near(case["seconds"])
        latencies.append(frames)
    summary, expected = video.latency_summary(latencies), GOLDEN["detection_latency_summary"]
    assert (summary.objects, summary.found, summary.missed) == (
        expected["polyps"],
        expected["found"],
        expected["missed"],
    )
    assert summary.mean_frames == near(expected["mean_frames_of_found"])
    assert summary.median_frames == near(expected["median_frames_of_found"])
    assert video.latency_summary([None]).mean_frames is None
    # A detection between two appearances can't be a true one.
    assert video.detection_latency([(30, 40), (60, 70)], [50]) is None


def test_centroid_jitter() -> None:
    found = GOLDEN["centroid_jitter"]

    def lists(centers: list[Any]) -> list[list[Any]]:
        return [[] if c is None else [tuple(c)] for c in centers]

    result = video.centroid_jitter(
        lists(found["predicted_centres"]), tuple(found["picture"]), lists(found["true_centres"])
    )
    assert result.steps == len(found["steps_used"])
    assert result.mean_px == near(found["mean_step_px"])
    assert result.mean_over_diagonal == near(found["mean_step_over_diagonal"])
    assert result.mean_residual_px == near(found["mean_residual_px"])


def test_two_objects_that_change_their_order_in_the_file_do_not_jump() -> None:
    result = video.centroid_jitter([[(0, 0), (100, 100)], [(101, 100), (0, 1)]], (640, 480))
    assert result.mean_px == near(1.0)


def test_patients() -> None:
    found = GOLDEN["patients"]
    patients = [
        Patient(tuple(Lesion(histology, hit) for histology, hit in p["polyps"]), p["false_positive"])
        for p in found["patients"].values()
    ]
    assert patient_metrics(patients) == near(found["expected"])
    unknown = [*patients, Patient((Lesion(None, True),), False)]
    result = patient_metrics(unknown)
    assert result["adr_truth"] is None and result["adenoma_miss_rate"] is None
    assert result["pdr_truth"] == near(0.8)
    weighted = patient_metrics(patients, np.array([[1.0, 1, 1, 1], [2, 0, 0, 0]]))
    assert weighted["pdr_truth"] is not None and weighted["pdr_truth"].tolist() == near([0.75, 1.0])


SEGMENTATION = GOLDEN["segmentation"]


def mask_of(lines: list[str]) -> np.ndarray:
    return np.array([[c == "#" for c in line] for line in lines])


def metrics_of(profile: str = "house") -> dict[str, masks.MaskMetrics]:
    return {
        name: masks.mask_metrics(
            mask_of(p["truth"]), mask_of(p["prediction"]), find_profile(MaskProfile, profile).empties
        )
        for name, p in SEGMENTATION["pictures"].items()
    }


@pytest.mark.parametrize("name", SEGMENTATION["pictures"])
def test_masks(name: str) -> None:
    expected = SEGMENTATION["pictures"][name]["figures"]
    result = metrics_of()[name]
    ours = {**result.values(), **{n: float(getattr(result.counts, n)) for n in ("tp", "fp", "fn", "tn")}}
    for key, value in expected.items():
        assert ours[key] == near(float("nan") if value is None else value), key


def test_means_and_pools_of_masks() -> None:
    figures = list(metrics_of().values())

    def means(chosen: list[masks.MaskMetrics], names: dict[str, float]) -> dict[str, float]:
        return {n: float(np.nanmean([f.values()[n] for f in chosen])) for n in names}

    expected = SEGMENTATION["mean_over_pictures"]
    assert means(figures, expected) == near(expected)
    expected = SEGMENTATION["mean_over_pictures_with_a_finding"]
    assert means([f for f in figures if f.has_finding], expected) == near(expected)
    pooled = masks.pooled(figures)
    assert {n: float(pooled[n]) for n in SEGMENTATION["pooled_pixels"]} == near(SEGMENTATION["pooled_pixels"])
    without = [f for f in figures if not f.has_finding]
    expected = SEGMENTATION["correct_nothing_rate"]
    assert len(without) == expected["pictures_without_finding"]
    assert sum(not f.reports_finding for f in without) == expected["left_empty"]


def test_empties_by_profile() -> None:
    expected = SEGMENTATION["official_scripts"]
    iou = float(np.mean([f.iou for f in metrics_of("endotect").values()]))
    assert iou == near(expected["endotect_mean_iou_both_empty_is_0"])
    endocv = metrics_of("endocv2021")
    assert endocv["nothing_found"].precision == expected["endocv2021_precision_of_nothing_found"]
    assert endocv["both_empty"].dice == expected["endocv2021_dice_both_empty"]


def test_mean_iou_of_classes() -> None:
    found = GOLDEN["mean_iou_of_classes"]
    truth, prediction = np.array(found["truth"]), np.array(found["prediction"])
    each = [masks.class_confusion(t, p, found["classes"]) for t, p in zip(truth, prediction, strict=True)]
    pooled = np.sum(each, axis=0)
    assert pooled.tolist() == found["confusion"]
    ious = masks.class_ious(pooled)
    assert ious.tolist() == near([float("nan") if v is None else v for v in found["iou_pooled"]])
    assert np.nanmean(ious) == near(found["miou_pooled"])
    assert np.nanmean(ious[1:]) == near(found["miou_pooled_without_background"])
    assert np.mean([np.nanmean(masks.class_ious(c)) for c in each]) == near(found["miou_mean_of_pictures"])


def test_frame_verdicts_from_masks() -> None:
    found = GOLDEN["image_level_from_masks"]
    names = ("abnormal_pixels", "of_them_marked", "marked_elsewhere")
    verdicts = [masks.frame_verdict(*(p[n] for n in names)) for p in found["pictures"]]
    assert verdicts == [p["verdict"] for p in found["pictures"]]
    counts = rates.Counts.of(*(verdicts.count(name) for name in ("tp", "fp", "fn", "tn")))
    assert rates.recall(counts) == near(found["sensitivity"])
    assert rates.specificity(counts) == near(found["specificity"])


@pytest.mark.parametrize("case", GOLDEN["generalisation"], ids=str)
def test_generalization(case: dict[str, float]) -> None:
    result = generalization(case["seen"], case["unseen"])
    assert result.gap == near(case["gap"])
    assert result.official_deviation == near(case["deviation_official_10_percent"])
    assert result.deviation == near(case["deviation_from_the_near_bound"])


@pytest.mark.parametrize("name", GOLDEN["box_consensus"]["cases"])
def test_box_consensus(name: str) -> None:
    case = GOLDEN["box_consensus"]["cases"][name]
    table = box_iou(case["boxes"], case["boxes"])
    assert table[np.triu_indices(len(table), 1)].tolist() == near(case["pair_iou"])
    result = consensus.box_consensus(case["boxes"])
    assert result.next_step == case["next"]
    assert list(result.box or (0, 0, 0, 0)) == near(case["result"])
    assert list(result.merged) == case.get("merged", [])


@pytest.mark.parametrize("case", GOLDEN["label_consensus"]["cases"], ids=str)
def test_label_consensus(case: dict[str, Any]) -> None:
    assert (consensus.label_consensus(case["labels"]) or "arbitration") == case["result"]


def test_kappas() -> None:
    found = GOLDEN["label_consensus"]
    assert consensus.cohen_kappa(found["cohen_kappa"]["a"], found["cohen_kappa"]["b"]) == near(
        found["cohen_kappa"]["value"]
    )
    assert consensus.fleiss_kappa(found["fleiss_kappa"]["counts"]) == near(found["fleiss_kappa"]["value"])


def test_size_of_a_finding() -> None:
    expected = GOLDEN["polyp_size"]
    size = masks.size_of(mask_of(SEGMENTATION["pictures"]["shifted"]["truth"]))
    assert size is not None
    assert (size.area_px, size.share, list(size.box)) == (expected["area_px"], expected["share"], expected["box"])
    assert size.longest_px == near(expected["longest_px"])
    line = np.zeros((9, 9), bool)
    line[4, 1:8] = True
    thin = masks.size_of(line)
    assert thin is not None and thin.longest_px == 6
    assert masks.size_of(np.zeros((4, 4), bool)) is None
