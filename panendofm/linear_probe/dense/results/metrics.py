"""Figures of a network on one test set: overlaps and distances of masks, average precision of boxes, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.detection.average_precision import (
    COCO,
    average_precision,
    average_precision_replicates,
    match_class,
    mean_of_classes,
)
from panendofm.scoring.detection.boxes import Boxes
from panendofm.scoring.masks import MaskMetrics, pooled
from panendofm.scoring.statistics.intervals import group_weights, percentile_interval

Floats = NDArray[np.float64]
MASK_FIGURES = ("iou", "dice", "precision", "recall", "f2", "accuracy", "hausdorff_95")


@dataclass
class Collected:
    """What is kept of each test picture while they are worked through."""

    classes: tuple[str, ...]
    masks: list[list[MaskMetrics]] = field(default_factory=list)  # [n][K]; only pictures whose dataset gives masks
    masked_rows: list[int] = field(default_factory=list)  # which of the test pictures those are
    true_boxes: list[list[tuple[int, Sequence[float], float]]] = field(default_factory=list)  # [K]
    found_boxes: dict[str, list[list[tuple[int, Sequence[float], float]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.true_boxes = [[] for _ in self.classes]


def figure(value: float, draws: Floats | None = None) -> dict[str, float | None]:
    interval = percentile_interval(draws) if draws is not None and len(draws) else None
    return {
        "value": None if np.isnan(value) else float(value),
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


@dataclass(frozen=True)
class SetFigures:
    """`draws`: bootstrap replicates of the main figures, for paired tests."""

    values: dict[str, Any]
    draws: dict[str, Floats]


def figures_of(collected: Collected, groups: NDArray[np.int64], replicates: int, seed: int) -> SetFigures:
    """groups [n]: of every test picture; whole groups are drawn."""
    weights = group_weights(groups, replicates, seed)
    values: dict[str, Any] = {"pictures": len(groups), "groups": len(np.unique(groups))}
    draws: dict[str, Floats] = {}
    if collected.masks:
        values["segmentation"], draws["iou"] = _segmentation(collected, weights[:, collected.masked_rows])
    values["detection"] = {}
    for detector, found in collected.found_boxes.items():
        values["detection"][detector], draws[f"{detector} map_50"] = _detection(collected, found, weights)
    return SetFigures(values, draws)


def _segmentation(collected: Collected, weights: Floats) -> tuple[dict[str, Any], Floats]:
    result: dict[str, Any] = {"per_class": {}}
    columns = list(zip(*collected.masks, strict=True))
    main = []
    for name, found in zip(collected.classes, columns, strict=True):
        with_finding = np.array([f.has_finding for f in found])
        table = {key: np.array([f.values()[key] for f in found]) for key in MASK_FIGURES}
        clean = [f for f in found if not f.has_finding]
        result["per_class"][name] = {
            "pictures": len(found),
            "with_finding": int(with_finding.sum()),
            "mean_over_pictures": {k: _mean(v, weights) for k, v in table.items()},
            "mean_over_pictures_with_a_finding": {
                k: _mean(np.where(with_finding, v, np.nan), weights) for k, v in table.items()
            },
            "pooled_pixels": {k: figure(float(v))["value"] for k, v in pooled(list(found)).items()},
            "left_empty": sum(not f.reports_finding for f in clean) / len(clean) if clean else None,
        }
        main.append(np.where(with_finding, table["iou"], np.nan))
    draws = mean_of_classes([_weighted_means(values, weights) for values in main])
    shown = [v for v in (_plain_mean(values) for values in main) if not np.isnan(v)]
    result["iou"] = figure(float(np.mean(shown)) if shown else float("nan"), draws)
    dice = [np.where([f.has_finding for f in found], [f.dice for f in found], np.nan) for found in columns]
    known = [v for v in (_plain_mean(values) for values in dice) if not np.isnan(v)]
    dice_draws = mean_of_classes([_weighted_means(values, weights) for values in dice])
    result["dice"] = figure(float(np.mean(known)) if known else float("nan"), dice_draws)
    return result, draws


def _plain_mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _weighted_means(values: Floats, weights: Floats) -> Floats:
    known = ~np.isnan(values)
    total = weights @ known.astype(np.float64)
    sums = weights @ np.where(known, values, 0.0)
    return np.asarray(np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0))


def _mean(values: Floats, weights: Floats) -> dict[str, float | None]:
    return figure(_plain_mean(values), _weighted_means(values, weights))


def _detection(
    collected: Collected, found: list[list[tuple[int, Sequence[float], float]]], weights: Floats
) -> tuple[dict[str, Any], Floats]:
    profile = COCO
    per_class, drawn = {}, []
    means: list[float] = []
    for name, true, own in zip(collected.classes, collected.true_boxes, found, strict=True):
        matches = match_class(Boxes.of(true), Boxes.of(own), profile)
        values = {t: average_precision(m, profile.curve) for t, m in matches.items()}
        if np.isnan(values[0.5]):
            continue
        per_class[name] = {"map": float(np.mean(list(values.values()))), "map_50": values[0.5], "map_75": values[0.75]}
        means.append(per_class[name]["map"])
        drawn.append(average_precision_replicates(matches[0.5], profile.curve, weights))
    at_half = mean_of_classes(drawn) if drawn else np.zeros(0)
    return {
        "map_50": figure(
            float(np.mean([c["map_50"] for c in per_class.values()])) if per_class else float("nan"), at_half
        ),
        "map": figure(float(np.mean(means)) if means else float("nan")),
        "per_class": per_class,
    }, at_half
