"""Boxes on parts of the test set, and how well each frame was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.config import ScoreConfig, SubgroupConfig
from panendofm.challenge.files.finding_model import Frame
from panendofm.challenge.files.frames import FindingPair
from panendofm.challenge.files.traits import Trait
from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, Metrics
from panendofm.challenge.score.subgroups import CLASS, NOTHING, SHARE, Parted, image_traits, score_parts
from panendofm.challenge.score.subsets import Case
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.boxes import Boxes, Matches
from panendofm.scoring.statistics.estimates import defined

# Longest side of a box as a share of the image's longer side; what is small to the eye, not to the sensor.
SIZES = {"small": (0.0, 0.1), "medium": (0.1, 0.3), "large": (0.3, 10.0)}
Pairs = Mapping[str, tuple[Boxes, Boxes]]  # true boxes and detections by class


def share_of_image(box: Sequence[float], size: tuple[int, int]) -> float:
    return float(max(box[2], box[3]) / max(size))


def frame_f1(at_half: Mapping[str, Matches], confidence: float, frames: int) -> Floats:
    """F1 of the boxes of each frame [N] at IoU 0.5; 1 where rightly nothing was reported."""
    right, shown, true = (np.zeros(frames) for _ in range(3))
    for matches in at_half.values():
        reported = (matches.confidence >= confidence) & ~matches.ignored
        shown += np.bincount(matches.image[reported], minlength=frames)
        right += np.bincount(matches.image[reported & matches.true_positive], minlength=frames)
        true += np.bincount(matches.truth_image, minlength=frames)
    boxes = shown + true
    return np.asarray(np.divide(2 * right, boxes, out=np.ones(frames), where=boxes > 0))


def box_subgroups(
    pair: FindingPair,
    profile: BoxProfile,
    boxes: Pairs,
    image_scores: Floats,
    weights: Floats,
    config: ScoreConfig,
) -> Parted:
    """The metrics that rank in the profile, over the classes with true boxes in a part."""
    traits = [frame_traits(frame, config.subgroups) for frame in pair.frames.frames]
    whole: dict[tuple[str, ...], Metrics] = {}

    def metrics_where(inside: NDArray[np.bool_]) -> tuple[Metrics, Metrics]:
        names = tuple(name for name, (truth, _) in boxes.items() if inside[truth.image].any())
        if names not in whole:
            whole[names] = _ranking(profile, {name: boxes[name] for name in names}, weights)
        own = {name: (_within(truth, inside), _within(found, inside)) for name, (truth, found) in boxes.items()}
        return _ranking(profile, {name: own[name] for name in names}, weights[:, inside]), whole[names]

    def case(i: int) -> Case:
        frame = pair.frames.frames[i]
        return Case(frame.file, frame.frame, float(image_scores[i]), f"F1 of its boxes {image_scores[i]:.2f}")

    return score_parts(traits, metrics_where, image_scores, case, pair.frames.groups, weights, config)


def frame_traits(frame: Frame, config: SubgroupConfig) -> list[Trait]:
    sizes = [finding.size_mm for finding in frame.findings]
    found = image_traits(frame.traits, frame.center, sizes, config)
    if frame.size is not None:
        shares = [share_of_image(finding.box, frame.size) for finding in frame.findings if finding.box is not None]
        names = [name for name, (low, high) in SIZES.items() if any(low < share <= high for share in shares)]
        found += [(SHARE, name) for name in names]
    return [*found, *((CLASS, name) for name in sorted({f.category for f in frame.findings}) or [NOTHING])]


def _ranking(profile: BoxProfile, boxes: Pairs, weights: Floats) -> Metrics:
    """Nothing where no class has a true box: there is nothing to find."""
    metrics = profile.metrics(MatchedBoxes(profile.rules, boxes, weights)) if boxes else {}
    return {
        name: metrics[name] for name in profile.ranking if name in metrics and defined(metrics[name][0]) is not None
    }


def _within(boxes: Boxes, inside: NDArray[np.bool_]) -> Boxes:
    """Those of some images [N], which are counted anew."""
    kept = boxes.take(inside[boxes.image])
    return Boxes((np.cumsum(inside) - 1)[kept.image], kept.box, kept.confidence)
