"""Figures of a detection file: AP by profile, frames, FROC, sizes, centres, patients, videos; intervals over groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.files.names import Key
from panendofm.challenge.score.format_metric import figure, none_for_nan
from panendofm.challenge.score.videos import patient_results, video_results
from panendofm.scoring.classification import rates
from panendofm.scoring.detection import average_precision as ap
from panendofm.scoring.detection.boxes import Boxes, Matches
from panendofm.scoring.detection.frames import FROC_POINTS, box_counts, frame_counts, froc
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.generalization import generalisation
from panendofm.scoring.statistics.intervals import group_weights

Floats = NDArray[np.float64]
# Longest side of a box as a share of the picture's longer side; what is small to the eye, not to the sensor.
SIZES = {"small": (0.0, 0.1), "medium": (0.1, 0.3), "large": (0.3, 10.0)}


def boxes_of(frames: list[Frame], category: str) -> Boxes:
    return Boxes.of(
        [
            (number, finding.box, finding.confidence)
            for number, frame in enumerate(frames)
            for finding in frame.findings
            if finding.category == category and finding.box is not None
        ]
    )


def score_boxes(
    frames: FrameSet,
    answers: Mapping[Key, Frame],
    classes: tuple[str, ...],
    profile: str,
    bootstrap: BootstrapConfig,
    confidence: float = 0.5,
    fps: float | None = None,
    unseen: str | None = None,
) -> dict[str, Any]:
    true, told = list(frames.frames), [answers[key] for key in frames.keys]
    pairs = {name: (boxes_of(true, name), boxes_of(told, name)) for name in classes}
    weights = group_weights(frames.groups, bootstrap.samples, bootstrap.seed)
    chosen = {"coco", profile}
    matches = {p: {n: ap.match_class(*pairs[n], ap.BOX_PROFILES[p]) for n in classes} for p in sorted(chosen)}
    at_half = {name: matches["coco"][name][0.5] for name in classes}
    level = bootstrap.confidence
    result: dict[str, Any] = {
        "type": "detection",
        "n": len(frames),
        "classes": list(classes),
        "true_boxes": {name: len(pairs[name][0]) for name in classes},
        "boxes": {name: len(pairs[name][1]) for name in classes},
        "groups": {"kind": frames.group_kind, "count": int(frames.groups.max()) + 1},
        "confidence_threshold": confidence,
        "profiles": {name: _profile(name, matches[name], pairs, weights, level) for name in matches},
        "per_class": {name: _per_class(len(frames), at_half[name], confidence, weights, level) for name in classes},
    }
    if frames.centres:
        result["centres"] = _centres(frames, matches["coco"], unseen)
    sized = _sizes(true, pairs, at_half)
    if sized:
        result["by_size"] = sized
    patients = patient_results(frames, at_half, pairs, confidence, bootstrap)
    if patients:
        result["patients"] = patients
    videos = video_results(frames, told, at_half, pairs, confidence, fps)
    if videos:
        result["videos"] = videos
    return result


def _profile(
    name: str,
    matches: dict[str, dict[float, Matches]],
    pairs: dict[str, tuple[Boxes, Boxes]],
    weights: Floats,
    level: float,
) -> dict[str, Any]:
    profile = ap.BOX_PROFILES[name]
    values = {c: {t: ap.average_precision(m, profile.curve) for t, m in by.items()} for c, by in matches.items()}
    drawn = {
        c: {t: ap.average_precision_replicates(m, profile.curve, weights) for t, m in by.items()}
        for c, by in matches.items()
    }

    def replicates(*thresholds: float) -> Floats:
        wanted = thresholds or profile.thresholds
        return np.asarray(np.mean([ap.mean_of_classes([drawn[c][t] for c in values]) for t in wanted], axis=0))

    def mean(*thresholds: float) -> dict[str, Any]:
        wanted = thresholds or profile.thresholds
        one = np.mean([ap.mean_of_classes([np.array([values[c][t]]) for c in values]) for t in wanted], axis=0)
        return figure(one[0], replicates(*thresholds), level)

    figures = {"map": mean(), "map_50": mean(0.5), "map_75": mean(0.75)}
    if name == "endocv2020":
        figures["map_25"] = mean(0.25)
        figures |= _endocv2020(matches, values, drawn, weights, level)
    if profile.by_area:
        figures |= _by_area(profile, pairs, figures["map"], replicates(), weights, level)
    return {
        "about": profile.about,
        "classes_with_truth": sum(len(truth) > 0 for truth, _ in pairs.values()),
        "figures": figures,
        "ap": {c: {f"{t:g}": none_for_nan(v) for t, v in by.items()} for c, by in values.items()},
    }


def _endocv2020(
    matches: dict[str, dict[float, Matches]],
    values: dict[str, dict[float, float]],
    drawn: dict[str, dict[float, Floats]],
    weights: Floats,
    level: float,
) -> dict[str, Any]:
    """0.6 mAP + 0.4 IoU, where the IoU is over all boxes, and beside it that of true positives alone."""
    with_truth = [c for c in values if not np.isnan(next(iter(values[c].values())))]
    every = [m for c in with_truth for m in matches[c].values()]
    if not every:
        return {}
    iou = float(np.mean([ap.mean_iou_of_all(m) for m in every]))
    iou_drawn = np.mean([_weighted_iou(m, weights) for m in every], axis=0)
    value = float(np.mean([v for c in with_truth for v in values[c].values()]))
    many = np.mean([ap.mean_of_classes([drawn[c][t] for c in values]) for t in values[with_truth[0]]], axis=0)
    right = [ap.mean_iou_of_true(m) for c in with_truth for t, m in matches[c].items() if t == 0.5]
    known = [v for v in right if not np.isnan(v)]
    return {
        "iou_of_all_boxes": figure(iou, iou_drawn, level),
        "score": figure(ap.detection_score(value, iou), 0.6 * many + 0.4 * iou_drawn, level),
        "iou_of_true_positives_50": figure(float(np.mean(known)) if known else float("nan")),
    }


def _weighted_iou(matches: Matches, weights: Floats) -> Floats:
    pictures = weights.shape[1]
    total = np.bincount(matches.picture, minlength=pictures).astype(np.float64)
    sums = np.bincount(matches.picture, matches.iou, minlength=pictures)
    return np.nan_to_num(rates.ratio(weights @ sums, weights @ total))


def _by_area(
    profile: ap.BoxProfile,
    pairs: dict[str, tuple[Boxes, Boxes]],
    overall: dict[str, Any],
    overall_drawn: Floats,
    weights: Floats,
    level: float,
) -> dict[str, Any]:
    """AP of small, medium and large boxes, and the mean of the four, over those that have true boxes."""
    figures: dict[str, Any] = {}
    every = [overall_drawn]
    for size, areas in ap.AREAS.items():
        found = [ap.match_class(*pair, profile, areas) for pair in pairs.values()]
        one, many = [], []
        for t in profile.thresholds:
            one.append(ap.mean_of_classes([np.array([ap.average_precision(m[t], profile.curve)]) for m in found]))
            many.append(
                ap.mean_of_classes([ap.average_precision_replicates(m[t], profile.curve, weights) for m in found])
            )
        every.append(np.mean(many, axis=0))
        figures[f"map_{size}"] = figure(np.mean(one, axis=0)[0], every[-1], level)
    parts = [v for v in (overall["value"], *(f["value"] for f in figures.values())) if v is not None]
    score = float(np.mean(parts)) if parts else float("nan")
    return {**figures, "score_d": figure(score, ap.mean_of_classes(every), level)}


def _per_class(pictures: int, matches: Matches, confidence: float, weights: Floats, level: float) -> dict[str, Any]:
    one = box_counts(pictures, matches, confidence)
    many = box_counts(pictures, matches, confidence, weights)
    rules: tuple[tuple[str, Callable[[rates.Counts], Floats]], ...] = (
        ("recall", rates.recall),
        ("precision", rates.precision),
        ("f1", rates.f_score),
        ("f2", lambda counts: rates.f_score(counts, 2.0)),
    )
    result: dict[str, Any] = {
        "boxes": {
            **{name: int(getattr(one, name)) for name in ("tp", "fp", "fn")},
            **{name: figure(rule(one), rule(many), level) for name, rule in rules},
            "mean_iou_of_true_positives": none_for_nan(ap.mean_iou_of_true(matches)),
        }
    }
    for reading, place in (("frames_presence", False), ("frames_presence_and_place", True)):
        counts = frame_counts(pictures, matches, place, confidence)
        drawn = rates.all_rates(frame_counts(pictures, matches, place, confidence, weights))
        result[reading] = {
            **{name: int(getattr(counts, name)) for name in ("tp", "fp", "fn", "tn")},
            **{name: figure(value, drawn[name], level) for name, value in rates.all_rates(counts).items()},
        }
    points, drawn_points = froc(matches, pictures), froc(matches, pictures, weights)
    result["froc"] = {f"{x:g}": figure(points[i], drawn_points[:, i], level) for i, x in enumerate(FROC_POINTS)}
    return result


def _centres(frames: FrameSet, matches: dict[str, dict[float, Matches]], unseen: str | None) -> dict[str, Any]:
    """mAP centre by centre, and how much an unseen one loses."""

    def map_where(inside: NDArray[np.bool_]) -> float:
        row = inside[None].astype(np.float64)
        thresholds = next(iter(matches.values()))
        parts = [
            ap.mean_of_classes([ap.average_precision_replicates(by[t], "101 points", row) for by in matches.values()])
            for t in thresholds
        ]
        return float(np.mean(parts))

    result: dict[str, Any] = {
        "map": {name: none_for_nan(map_where(frames.inside(name))) for name in frames.centres},
        "frames": {name: int(frames.inside(name).sum()) for name in frames.centres},
    }
    if unseen is not None:
        inside = frames.inside(unseen)
        seen, outside = map_where(~inside), map_where(inside)
        if not np.isnan(seen) and not np.isnan(outside):
            result["generalisation"] = {"seen": seen, "unseen": outside, **generalisation(seen, outside)._asdict()}
    return result


def _sizes(
    frames: list[Frame], pairs: dict[str, tuple[Boxes, Boxes]], at_half: dict[str, Matches]
) -> dict[str, Any] | None:
    """Share of the true boxes that were found, by size in the picture; only where all pictures' sizes are known."""
    if any(frame.size is None for frame in frames):
        return None
    longer = np.array([max(frame.size) if frame.size else 0 for frame in frames], np.float64)
    result = {}
    for name, (low, high) in SIZES.items():
        total = found = 0
        for category, (truth, _) in pairs.items():
            share = truth.box[:, 2:].max(axis=1, initial=0) / longer[truth.picture]
            inside = (share > low) & (share <= high)
            missed = np.zeros(len(truth), bool)
            missed[at_half[category].missed] = True
            total, found = total + int(inside.sum()), found + int((inside & ~missed).sum())
        result[name] = {"boxes": total, "found": found, "recall": found / total if total else None}
    return result
