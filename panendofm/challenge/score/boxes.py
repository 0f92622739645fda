"""Metrics of a detection file: AP by profile, frames, FROC, sizes, centers, patients, videos; intervals over groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FindingPair
from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, find_profile
from panendofm.challenge.score.box_subgroups import SIZES, box_subgroups, frame_f1, share_of_image
from panendofm.challenge.score.centers import center_scores
from panendofm.challenge.score.results import BoxClass, BoxProfileScores, BoxScores, CountedRates, SizeRecall
from panendofm.challenge.score.videos import patient_scores, video_scores
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.average_precision import mean_iou_of_true
from panendofm.scoring.detection.boxes import Boxes, Matches
from panendofm.scoring.detection.frames import FROC_POINTS, box_counts, frame_counts, froc
from panendofm.scoring.statistics.estimates import defined, estimate, value_and_replicate_weights

_BOX_RATES = ("recall", "precision", "f1", "f2")  # the others need true negatives, which boxes don't have
_FRAME_RATES = ("recall", "precision", "specificity", "npv", "accuracy", "f1", "f2", "mcc")
Pairs = dict[str, tuple[Boxes, Boxes]]  # true boxes and detections by class


def score_boxes(pair: FindingPair, profile: BoxProfile, config: ScoreConfig) -> BoxScores:
    frames = pair.frames
    bootstrap, confidence = config.bootstrap, config.confidence
    boxes = {name: (_boxes_of(frames.frames, name), _boxes_of(pair.told, name)) for name in pair.classes}
    weights = value_and_replicate_weights(frames.groups, bootstrap)
    level = bootstrap.confidence
    # Boxes, frames, centers and patients are always judged by COCO's matches at IoU 0.5.
    coco = find_profile(BoxProfile, None)
    chosen = {coco.name: coco, profile.name: profile}  # one, where they are the same
    matched = {name: MatchedBoxes(p.rules, boxes, weights) for name, p in chosen.items()}
    at_half = {name: matches[0.5] for name, matches in matched[coco.name].matches.items()}
    own_f1 = frame_f1(at_half, confidence, len(frames))
    return BoxScores(
        n=len(frames),
        classes=list(pair.classes),
        groups=int(frames.groups.max()) + 1,
        group_kind=frames.group_kind,
        true_boxes={name: len(truth) for name, (truth, _) in boxes.items()},
        boxes={name: len(detections) for name, (_, detections) in boxes.items()},
        confidence_threshold=confidence,
        profiles={name: _profile(p, matched[name], boxes, level) for name, p in chosen.items()},
        per_class={name: _per_class(matches, confidence, weights, level) for name, matches in at_half.items()},
        centers=center_scores("map", matched[coco.name].mean_ap_where, frames, config.unseen_center),
        by_size=_by_size(frames.frames, boxes, at_half),
        patients=patient_scores(frames, at_half, confidence, bootstrap),
        videos=video_scores(pair, at_half, confidence, config.fps),
        **vars(box_subgroups(pair, profile, boxes, own_f1, weights, config)),
    )


def _boxes_of(frames: Sequence[Frame], category: str) -> Boxes:
    return Boxes.of(
        [
            (number, finding.box, finding.confidence)
            for number, frame in enumerate(frames)
            for finding in frame.findings
            if finding.category == category and finding.box is not None
        ]
    )


def _profile(profile: BoxProfile, matched: MatchedBoxes, boxes: Pairs, level: float) -> BoxProfileScores:
    return BoxProfileScores(
        about=profile.about,
        metrics={name: estimate(values, level) for name, values in profile.metrics(matched).items()},
        classes_with_truth=sum(len(truth) > 0 for truth, _ in boxes.values()),
        ap={name: {f"{t:g}": defined(values[0]) for t, values in by.items()} for name, by in matched.ap.items()},
    )


def _per_class(matches: Matches, confidence: float, weights: Floats, level: float) -> BoxClass:
    images = weights.shape[1]
    points = froc(matches, images, weights)
    boxes = box_counts(images, matches, confidence, weights)
    presence, with_place = (frame_counts(images, matches, place, confidence, weights) for place in (False, True))
    return BoxClass(
        boxes=CountedRates.of(boxes, _BOX_RATES, level),
        mean_iou_of_true_positives=defined(mean_iou_of_true(matches)),
        frames_presence=CountedRates.of(presence, _FRAME_RATES, level),
        frames_presence_and_place=CountedRates.of(with_place, _FRAME_RATES, level),
        froc={f"{x:g}": estimate(points[:, i], level) for i, x in enumerate(FROC_POINTS)},
    )


def _by_size(frames: Sequence[Frame], pairs: Pairs, at_half: dict[str, Matches]) -> dict[str, SizeRecall]:
    """Share of the true boxes that were found, by size in the image; only where all images' sizes are known."""
    if any(frame.size is None for frame in frames):
        return {}
    sizes = [frame.size or (0, 0) for frame in frames]
    result = {}
    for name, (low, high) in SIZES.items():
        total = found = 0
        for category, (truth, _) in pairs.items():
            share = np.array([share_of_image(box, sizes[i]) for i, box in zip(truth.image, truth.box, strict=True)])
            inside = (share > low) & (share <= high)
            missed = np.zeros(len(truth), bool)
            missed[at_half[category].missed] = True
            total += int(inside.sum())
            found += int((inside & ~missed).sum())
        result[name] = SizeRecall(total, found, found / total if total else None)
    return result
