"""Metrics of a network on one test set: overlaps and distances of masks, average precision of boxes, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from panendofm.linear_probe.dense.results.document import BoxResults, ClassBoxes, ClassMasks, MaskResults, SetResults
from panendofm.linear_probe.results.evaluate import estimate
from panendofm.scoring.detection.average_precision import (
    COCO,
    average_precision,
    average_precision_replicates,
    match_class,
    mean_of_classes,
)
from panendofm.scoring.detection.boxes import Boxes
from panendofm.scoring.masks import MaskMetrics, pooled
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate, defined
from panendofm.scoring.statistics.intervals import group_weights

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
    weights = group_weights(groups, bootstrap.replicates, bootstrap.seed)
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
    ious, dices = [], []
    for name, found in zip(collected.classes, zip(*collected.masks, strict=True), strict=True):
        with_finding = np.array([one.has_finding for one in found])
        values = {metric: np.array([one.values()[metric] for one in found]) for metric in MASK_METRICS}
        shown = {metric: np.where(with_finding, value, np.nan) for metric, value in values.items()}
        clean = [one for one in found if not one.has_finding]
        per_class[name] = ClassMasks(
            images=len(found),
            with_finding=int(with_finding.sum()),
            mean_over_images={metric: _mean(value, weights, confidence) for metric, value in values.items()},
            mean_over_images_with_a_finding={
                metric: _mean(value, weights, confidence) for metric, value in shown.items()
            },
            pooled_pixels={metric: defined(float(value)) for metric, value in pooled(list(found)).items()},
            left_empty=sum(not one.reports_finding for one in clean) / len(clean) if clean else None,
        )
        ious.append(shown["iou"])
        dices.append(shown["dice"])
    iou, draws = _mean_over_classes(ious, weights, confidence)
    dice, _ = _mean_over_classes(dices, weights, confidence)
    return MaskResults(iou, dice, per_class), draws


def _mean_over_classes(by_class: list[Floats], weights: Floats, confidence: float) -> tuple[Estimate, Floats]:
    known = [mean for mean in (_plain_mean(values) for values in by_class) if not np.isnan(mean)]
    draws = mean_of_classes([_weighted_means(values, weights) for values in by_class])
    return estimate(float(np.mean(known)) if known else float("nan"), draws, confidence), draws


def _plain_mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _weighted_means(values: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(values)
    total = weights @ known.astype(np.float64)
    sums = weights @ np.where(known, values, 0.0)
    return np.asarray(np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0))


def _mean(values: Floats, weights: Floats, confidence: float) -> Estimate:
    return estimate(_plain_mean(values), _weighted_means(values, weights), confidence)


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
    at_half = float(np.mean([boxes.map_50 for boxes in per_class.values()]))
    over_thresholds = float(np.mean([boxes.map for boxes in per_class.values()]))
    return BoxResults(estimate(at_half, mean_of_classes(drawn), confidence), Estimate(over_thresholds), per_class)
