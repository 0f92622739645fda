"""Metrics of points in the masks of findings: APDCV's localization, frame by frame and video by video."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.files.finding_model import Finding, Frame
from panendofm.challenge.files.frames import FindingPair
from panendofm.challenge.files.mask_files import finding_mask
from panendofm.challenge.placed_points import PlacedPoints
from panendofm.challenge.profile import Metrics, PointProfile
from panendofm.challenge.score.box_subgroups import frame_traits
from panendofm.challenge.score.centers import center_scores
from panendofm.challenge.score.results import CountedRates, PointClass, PointScores, ProfileScores
from panendofm.challenge.score.subgroups import score_parts
from panendofm.challenge.score.subsets import Case
from panendofm.runtime.console import track
from panendofm.scoring.classification import rates
from panendofm.scoring.classification.rates import Counts, Floats
from panendofm.scoring.detection.frames import points_in_parts
from panendofm.scoring.detection.video import LatencySummary, latency_of_objects
from panendofm.scoring.statistics.estimates import estimate, value_and_replicate_weights

_POINT_RATES = ("recall", "precision", "f1", "f2")
_FRAME_RATES = ("recall", "precision", "specificity", "npv", "accuracy", "f1", "f2")


def score_points(pair: FindingPair, profile: PointProfile, config: ScoreConfig) -> PointScores:
    frames = pair.frames
    bootstrap, confidence, fps = config.bootstrap, config.confidence, config.fps
    rows = list(zip(frames.frames, pair.told, strict=True))
    placed = [_placed(pair, frame, told, confidence) for frame, told in track(rows, "points", len(rows), "frames")]
    found, false, missed = (
        np.array([[getattr(of[name], part) for name in pair.classes] for of in placed], np.float64)
        for part in ("found", "false", "missed")
    )  # each [N, C]
    weights = value_and_replicate_weights(frames.groups, bootstrap)
    video = np.unique([name for name, _ in frames.keys], return_inverse=True)[1].astype(np.int64)
    all_found, all_false, all_missed = (part.sum(axis=1) for part in (found, false, missed))

    def metrics_under(drawn: Floats) -> Metrics:
        return profile.metrics(PlacedPoints(all_found, all_false, all_missed, video, drawn))

    main = profile.ranking[0]
    metrics = metrics_under(weights)
    level = bootstrap.confidence
    latency = _latency(pair, placed)
    image_scores = np.nan_to_num(rates.f_score(Counts.of(all_found, all_false, all_missed, 0.0)), nan=1.0)
    traits = [frame_traits(frame, config.subgroups) for frame in frames.frames]

    def main_where(inside: NDArray[np.bool_]) -> float:
        return float(metrics_under(inside[None].astype(np.float64))[main][0])

    def metrics_where(inside: NDArray[np.bool_]) -> tuple[Metrics, Metrics]:
        own = metrics_under(weights * inside)
        return {n: own[n] for n in profile.ranking}, {n: metrics[n] for n in profile.ranking}

    def case(i: int) -> Case:
        said = f"{all_found[i]:g} found, {all_false[i]:g} false, {all_missed[i]:g} missed"
        return Case(frames.frames[i].file, frames.frames[i].frame, float(image_scores[i]), said)

    return PointScores(
        n=len(frames),
        classes=list(pair.classes),
        groups=int(frames.groups.max()) + 1,
        group_kind=frames.group_kind,
        **vars(score_parts(traits, metrics_where, image_scores, case, frames.groups, weights, config)),
        findings={name: int((found + missed)[:, c].sum()) for c, name in enumerate(pair.classes)},
        confidence_threshold=confidence,
        profiles={profile.name: ProfileScores(profile.about, {n: estimate(v, level) for n, v in metrics.items()})},
        per_class={
            name: _class(found[:, c], false[:, c], missed[:, c], weights, level) for c, name in enumerate(pair.classes)
        },
        centers=center_scores(main, main_where, frames, config.unseen_center),
        latency=latency,
        mean_latency_seconds=latency.mean_frames / fps if latency and fps and latency.mean_frames is not None else None,
    )


@dataclass(frozen=True)
class _Placed:
    """The points of one class in one frame; `hit` names the objects that a point lies in, `seen` all of them."""

    found: int
    false: int
    missed: int
    seen: tuple[str, ...]
    hit: frozenset[str]


def _placed(pair: FindingPair, frame: Frame, told: Frame, confidence: float) -> dict[str, _Placed]:
    size = frame.size or told.size
    result = {}
    for name in pair.classes:
        own = [finding for finding in frame.findings if finding.category == name]
        reported = [f for f in told.findings if f.category == name and f.confidence >= confidence]
        points = [point for f in reported if (point := f.center) is not None]
        numbered, objects, size = _numbered(pair, own, name, size)
        counts = points_in_parts(numbered, len(objects), points)
        hit = frozenset(
            objects[number - 1]
            for x, y in points
            if 0 <= x < numbered.shape[1] and 0 <= y < numbered.shape[0] and (number := int(numbered[int(y), int(x)]))
        )
        result[name] = _Placed(counts.tp, counts.fp, counts.fn, tuple(dict.fromkeys(objects)), hit)
    return result


def _numbered(
    pair: FindingPair, findings: Sequence[Finding], category: str, size: tuple[int, int] | None
) -> tuple[NDArray[np.int64], list[str], tuple[int, int] | None]:
    """Findings by number [H, W] from 1 on, and the object of each; connected parts of one mask are findings, too."""
    numbered = np.zeros((size[1], size[0]) if size else (0, 0), np.int64)
    objects: list[str] = []
    for finding in findings:
        mask = finding_mask(pair.truth, finding, size)
        size = (mask.shape[1], mask.shape[0])
        if numbered.shape != mask.shape:
            numbered = np.zeros(mask.shape, np.int64)
        count, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
        for part in range(1, count):
            objects.append(finding.object or category)
            numbered[parts == part] = len(objects)
    return numbered, objects, size


def _class(found: Floats, false: Floats, missed: Floats, weights: Floats, level: float) -> PointClass:
    points = Counts(weights @ found, weights @ false, weights @ missed, np.zeros(len(weights)))
    has, reported = found + missed > 0, found + false > 0
    kinds = (has & reported, ~has & reported, has & ~reported, ~has & ~reported)
    frames = Counts(*(weights @ kind.astype(np.float64) for kind in kinds))
    return PointClass(CountedRates.of(points, _POINT_RATES, level), CountedRates.of(frames, _FRAME_RATES, level))


def _latency(pair: FindingPair, placed: Sequence[dict[str, _Placed]]) -> LatencySummary | None:
    """Frames from an object's first appearance in a video to the first point in it."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    hit: dict[tuple[str, str], list[int]] = defaultdict(list)
    names = [name for name, _ in pair.frames.keys]
    for (name, number), of_class in zip(pair.frames.keys, placed, strict=True):
        if names.count(name) < 2:
            continue
        for found in of_class.values():
            for thing in found.seen:
                seen[name, thing].append(number)
            for thing in found.hit:
                hit[name, thing].append(number)
    return latency_of_objects(seen, hit)
