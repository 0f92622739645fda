"""Metrics of a network on one test set: overlaps and distances of masks, average precision of boxes, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from panendofm.linear_probe.dense.results.document import BoxResults, ClassBoxes, ClassMasks, MaskResults, SetResults
from panendofm.scoring.detection.average_precision import (
    COCO,
    average_precision,
    average_precision_replicates,
    match_class,
    mean_of_classes,
)
from panendofm.scoring.detection.boxes import Boxes
from panendofm.scoring.masks import MaskMetrics, mean_metrics, pooled
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate, defined, estimate, value_and_replicate_weights

Floats = NDArray[np.float64]
MASK_METRICS = ("iou", "dice", "precision", "recall", "f2", "accuracy", "hausdorff_95")


@dataclass
class Collected:
    """What is kept of each test image while they are worked through."""

    classes: tuple[str, ...]
    masks: list[list[MaskMetrics]] = field(default_factory=list)  # [n][K]; only images whose dataset gives masks
    masked_rows: list[int] = field(default_factory=list)  # which of the test images those are
    true_boxes: list[list[tuple[int, Sequence[float], float]]] = field(default_factory=list)  # [K]
    found_boxes: dict[str, list[list[tuple[int, Sequence[float], float]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.true_boxes = [[] for _ in self.classes]


@dataclass(frozen=True)
class ScoredSet:
    """`iou_draws`: bootstrap replicates of the mean IoU, for paired tests; None without masks."""

    results: SetResults
    iou_draws: Floats | None


def score_set(collected: Collected, groups: NDArray[np.int64], bootstrap: BootstrapConfig) -> ScoredSet:
    """groups [n]: of every test image; whole groups are drawn."""
    weights = value_and_replicate_weights(groups, bootstrap)
    confidence = bootstrap.confidence
    masks = None
    draws = None
    if collected.masks:
        masks, draws = _segmentation(collected, weights[:, collected.masked_rows], confidence)
    boxes = {name: _detection(collected, found, weights, confidence) for name, found in collected.found_boxes.items()}
    return ScoredSet(SetResults(len(groups), len(np.unique(groups)), boxes, masks), draws)


def _segmentation(collected: Collected, weights: Floats, confidence: float) -> tuple[MaskResults, Floats]:
    """The results, and the replicates of the mean IoU."""
    per_class = {}
    overlaps: dict[str, list[Floats]] = {"iou": [], "dice": []}  # by class, each [1 + R]
    for name, found in zip(collected.classes, zip(*collected.masks, strict=True), strict=True):
        with_finding = np.array([one.has_finding for one in found])
        means = mean_metrics(found, MASK_METRICS, weights)
        shown = mean_metrics(found, MASK_METRICS, weights, with_finding)
        clean = [one for one in found if not one.has_finding]
        per_class[name] = ClassMasks(
            images=len(found),
            with_finding=int(with_finding.sum()),
            mean_over_images={metric: estimate(mean, confidence) for metric, mean in means.items()},
            mean_over_images_with_a_finding={metric: estimate(mean, confidence) for metric, mean in shown.items()},
            pooled_pixels={metric: defined(float(value)) for metric, value in pooled(list(found)).items()},
            left_empty=sum(not one.reports_finding for one in clean) / len(clean) if clean else None,
        )
        for metric, own in overlaps.items():
            own.append(shown[metric])
    iou, dice = (mean_of_classes(own) for own in overlaps.values())
    return MaskResults(estimate(iou, confidence), estimate(dice, confidence), per_class), iou[1:]


def _detection(
    collected: Collected, found: list[list[tuple[int, Sequence[float], float]]], weights: Floats, confidence: float
) -> BoxResults:
    per_class = {}
    drawn = []
    for name, true, own in zip(collected.classes, collected.true_boxes, found, strict=True):
        matches = match_class(Boxes.of(true), Boxes.of(own), COCO)
        values = {t: average_precision(m, COCO.curve) for t, m in matches.items()}
        if np.isnan(values[0.5]):
            continue
        per_class[name] = ClassBoxes(float(np.mean(list(values.values()))), values[0.5], values[0.75])
        drawn.append(average_precision_replicates(matches[0.5], COCO.curve, weights))
    if not per_class:
        return BoxResults(Estimate(None), Estimate(None), {})
    over_thresholds = float(np.mean([boxes.map for boxes in per_class.values()]))
    return BoxResults(estimate(mean_of_classes(drawn), confidence), Estimate(over_thresholds), per_class)
