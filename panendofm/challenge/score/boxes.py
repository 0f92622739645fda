"""Metrics of a detection file: AP by profile, frames, FROC, sizes, centers, patients, videos; intervals over groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.files.names import Key
from panendofm.challenge.profile import BoxProfile, MatchedBoxes, find_profile
from panendofm.challenge.score.centers import center_scores
from panendofm.challenge.score.results import (
    BoxClass,
    BoxProfileScores,
    BoxRates,
    BoxScores,
    FrameRates,
    Groups,
    SizeRecall,
)
from panendofm.challenge.score.videos import patient_scores, video_scores
from panendofm.scoring.classification import rates
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection import average_precision as ap
from panendofm.scoring.detection.boxes import Boxes, Matches
from panendofm.scoring.detection.frames import FROC_POINTS, box_counts, frame_counts, froc
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import defined, estimate, value_and_replicate_weights

# Longest side of a box as a share of the image's longer side; what is small to the eye, not to the sensor.
SIZES = {"small": (0.0, 0.1), "medium": (0.1, 0.3), "large": (0.3, 10.0)}
_BOX_RATES = ("recall", "precision", "f1", "f2")  # the others need true negatives, which boxes don't have
Pairs = dict[str, tuple[Boxes, Boxes]]  # true boxes and detections by class


def boxes_of(frames: Sequence[Frame], category: str) -> Boxes:
    return Boxes.of(
        [
            (number, finding.box, finding.confidence)
            for number, frame in enumerate(frames)
            for finding in frame.findings
            if finding.category == category and finding.box is not None
        ]
    )


class Matched(MatchedBoxes):
    """The boxes of a file matched by a profile's rules, under weights [1 + R, N]."""

    def __init__(self, profile: BoxProfile, pairs: Pairs, weights: Floats) -> None:
        self.profile = profile
        self._rules = profile.rules
        self._pairs = pairs
        self._weights = weights
        self.matches = {name: ap.match_class(*pair, profile.rules) for name, pair in pairs.items()}

    @cached_property
    def ap(self) -> dict[str, dict[float, Floats]]:
        """By class and threshold, each [1 + R]."""
        return {name: self._ap(matches) for name, matches in self.matches.items()}

    def _ap(self, matches: dict[float, Matches]) -> dict[float, Floats]:
        curve = self._rules.curve
        return {t: ap.average_precision_replicates(m, curve, self._weights) for t, m in matches.items()}

    def mean_ap(self, *thresholds: float) -> Floats:
        return self._mean(self.ap, thresholds or self._rules.thresholds)

    def mean_ap_of_areas(self, above: float, up_to: float) -> Floats:
        areas = (above, up_to)
        by_class = {n: self._ap(ap.match_class(*pair, self._rules, areas)) for n, pair in self._pairs.items()}
        return self._mean(by_class, self._rules.thresholds)

    @staticmethod
    def _mean(by_class: dict[str, dict[float, Floats]], thresholds: Sequence[float]) -> Floats:
        means = [ap.mean_of_classes([by_threshold[t] for by_threshold in by_class.values()]) for t in thresholds]
        return np.asarray(np.mean(means, axis=0))

    def _with_truth(self) -> list[dict[float, Matches]]:
        return [self.matches[name] for name, (truth, _) in self._pairs.items() if len(truth)]

    def mean_iou(self) -> Floats:
        every = [m for matches in self._with_truth() for m in matches.values()]
        if not every:
            return np.full(1, np.nan)
        return np.asarray(np.mean([ap.mean_iou_of_all(m, self._weights) for m in every], axis=0))

    def mean_iou_of_true_positives(self, threshold: float) -> Floats:
        values = [ap.mean_iou_of_true(matches[threshold]) for matches in self._with_truth()]
        return rates.mean_over_defined(np.array([values]))


def score_boxes(
    frames: FrameSet,
    answers: Mapping[Key, Frame],
    classes: tuple[str, ...],
    profile: BoxProfile,
    bootstrap: BootstrapConfig,
    confidence: float = 0.5,
    fps: float | None = None,
    unseen_center: str | None = None,
) -> BoxScores:
    told = [answers[key] for key in frames.keys]
    pairs = {name: (boxes_of(frames.frames, name), boxes_of(told, name)) for name in classes}
    weights = value_and_replicate_weights(frames.groups, bootstrap)
    level = bootstrap.confidence
    # Boxes, frames, centers and patients are always judged by COCO's matches at IoU 0.5.
    coco_profile = find_profile(BoxProfile, None)
    coco = Matched(coco_profile, pairs, weights)
    matched = [coco]
    if profile != coco_profile:
        matched.append(Matched(profile, pairs, weights))
    at_half = {name: coco.matches[name][0.5] for name in classes}
    return BoxScores(
        n=len(frames),
        classes=list(classes),
        true_boxes={name: len(truth) for name, (truth, _) in pairs.items()},
        boxes={name: len(detections) for name, (_, detections) in pairs.items()},
        groups=Groups(frames.group_kind, int(frames.groups.max()) + 1),
        confidence_threshold=confidence,
        profiles={boxes.profile.name: _profile(boxes, pairs, level) for boxes in matched},
        per_class={name: _per_class(at_half[name], confidence, weights, level) for name in classes},
        centers=center_scores("map", partial(_map_where, coco.matches), frames, unseen_center),
        by_size=_by_size(frames.frames, pairs, at_half),
        patients=patient_scores(frames, at_half, confidence, bootstrap),
        videos=video_scores(frames, told, at_half, confidence, fps),
    )


def _profile(boxes: Matched, pairs: Pairs, level: float) -> BoxProfileScores:
    return BoxProfileScores(
        about=boxes.profile.about,
        metrics={name: estimate(values, level) for name, values in boxes.profile.metrics(boxes).items()},
        classes_with_truth=sum(len(truth) > 0 for truth, _ in pairs.values()),
        ap={name: {f"{t:g}": defined(values[0]) for t, values in by.items()} for name, by in boxes.ap.items()},
    )


def _per_class(matches: Matches, confidence: float, weights: Floats, level: float) -> BoxClass:
    images = weights.shape[1]
    counts = box_counts(images, matches, confidence, weights)
    every = rates.all_rates(counts)
    points = froc(matches, images, weights)
    return BoxClass(
        boxes=BoxRates(
            tp=int(counts.tp[0]),
            fp=int(counts.fp[0]),
            fn=int(counts.fn[0]),
            metrics={name: estimate(every[name], level) for name in _BOX_RATES},
            mean_iou_of_true_positives=defined(ap.mean_iou_of_true(matches)),
        ),
        frames_presence=_frame_rates(frame_counts(images, matches, False, confidence, weights), level),
        frames_presence_and_place=_frame_rates(frame_counts(images, matches, True, confidence, weights), level),
        froc={f"{x:g}": estimate(points[:, i], level) for i, x in enumerate(FROC_POINTS)},
    )


def _frame_rates(counts: rates.Counts, level: float) -> FrameRates:
    return FrameRates(
        tp=int(counts.tp[0]),
        fp=int(counts.fp[0]),
        fn=int(counts.fn[0]),
        tn=int(counts.tn[0]),
        metrics={name: estimate(values, level) for name, values in rates.all_rates(counts).items()},
    )


def _map_where(matches: dict[str, dict[float, Matches]], inside: NDArray[np.bool_]) -> float:
    """mAP of some of the images."""
    row = inside[None].astype(np.float64)
    curve = ap.COCO.curve
    parts = [
        ap.mean_of_classes([ap.average_precision_replicates(by[t], curve, row) for by in matches.values()])
        for t in ap.COCO.thresholds
    ]
    return float(np.mean(parts))


def _by_size(frames: Sequence[Frame], pairs: Pairs, at_half: dict[str, Matches]) -> dict[str, SizeRecall]:
    """Share of the true boxes that were found, by size in the image; only where all images' sizes are known."""
    if any(frame.size is None for frame in frames):
        return {}
    longer = np.array([max(frame.size or (0,)) for frame in frames], np.float64)
    result = {}
    for name, (low, high) in SIZES.items():
        total = found = 0
        for category, (truth, _) in pairs.items():
            share = truth.box[:, 2:].max(axis=1, initial=0) / longer[truth.image]
            inside = (share > low) & (share <= high)
            missed = np.zeros(len(truth), bool)
            missed[at_half[category].missed] = True
            total += int(inside.sum())
            found += int((inside & ~missed).sum())
        result[name] = SizeRecall(total, found, found / total if total else None)
    return result
