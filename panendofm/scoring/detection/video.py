"""Metrics over the frames of a video: how soon, how steadily, and how many false alarms a minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
from scipy.optimize import linear_sum_assignment

from panendofm.scoring.detection.boxes import Floats

Point = tuple[float, float]


def detection_latency(visible: Sequence[tuple[int, int]], true_detections: Sequence[int]) -> int | None:
    """Frames from an object's first appearance to its first true detection while it is visible; None: missed.

    `visible` are first and last frames of its appearances.
    """
    first = min(start for start, _ in visible)
    inside = [frame for frame in true_detections if any(start <= frame <= end for start, end in visible)]
    return min(inside) - first if inside else None


@dataclass(frozen=True)
class LatencySummary:
    objects: int
    found: int
    missed: int
    mean_frames: float | None
    median_frames: float | None


def latency_summary(latencies: Sequence[int | None]) -> LatencySummary:
    """A missed object is counted and not in the mean, which would otherwise reward missing the late ones."""
    found = np.array([x for x in latencies if x is not None], np.float64)
    mean, median = (float(found.mean()), float(np.median(found))) if len(found) else (None, None)
    return LatencySummary(len(latencies), len(found), len(latencies) - len(found), mean, median)


def latency_of_objects(
    seen: Mapping[tuple[str, str], Sequence[int]], hit: Mapping[tuple[str, str], Sequence[int]]
) -> LatencySummary | None:
    """Frames that show each object (video, name), and those in which it was found; None without objects."""
    latencies = [detection_latency([(f, f) for f in frames], hit.get(key, ())) for key, frames in seen.items()]
    return latency_summary(latencies) if latencies else None


@dataclass(frozen=True)
class Jitter:
    """Movement of detected centers between consecutive frames, and what of it is not true movement."""

    steps: int
    residual_steps: int
    mean_px: float | None
    mean_over_diagonal: float | None
    mean_residual_px: float | None


def assigned_steps(before: Sequence[Point], after: Sequence[Point]) -> list[tuple[int, int]]:
    """Which center becomes which from one frame to the next: least total distance."""
    if not before or not after:
        return []
    rows, columns = linear_sum_assignment(_distances(before, after))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _distances(a: Sequence[Point], b: Sequence[Point]) -> Floats:
    return np.asarray(np.linalg.norm(np.array(a, float)[:, None] - np.array(b, float)[None], axis=-1))


def centroid_jitter(
    detected: Sequence[Sequence[Point]], size: tuple[int, int], true: Sequence[Sequence[Point]] | None = None
) -> Jitter:
    """Of one class, a list of centers for each frame. With truth, each detection goes with the nearest true center."""
    lengths, residuals = [], []
    for f in range(len(detected) - 1):
        for i, j in assigned_steps(detected[f], detected[f + 1]):
            here, there = detected[f][i], detected[f + 1][j]
            moved = (there[0] - here[0], there[1] - here[1])
            lengths.append(hypot(*moved))
            motion = _true_motion(true, f, here) if true is not None else None
            if motion is not None:
                residuals.append(hypot(moved[0] - motion[0], moved[1] - motion[1]))
    mean = float(np.mean(lengths)) if lengths else None
    return Jitter(
        len(lengths),
        len(residuals),
        mean,
        mean / hypot(*size) if mean is not None else None,
        float(np.mean(residuals)) if residuals else None,
    )


def _true_motion(true: Sequence[Sequence[Point]], frame: int, near: Point) -> Point | None:
    steps = assigned_steps(true[frame], true[frame + 1])
    if not steps:
        return None
    i, j = min(steps, key=lambda step: hypot(true[frame][step[0]][0] - near[0], true[frame][step[0]][1] - near[1]))
    here, there = true[frame][i], true[frame + 1][j]
    return there[0] - here[0], there[1] - here[1]


def alarms_per_minute(false_positive_frames: Sequence[int], frames: int, fps: float, gap_frames: int = 0) -> float:
    """Alarms are runs of frames with a false box; `gap_frames` quiet frames in between don't end one."""
    ordered = sorted(set(false_positive_frames))
    runs = sum(1 for i, f in enumerate(ordered) if i == 0 or f - ordered[i - 1] > 1 + gap_frames)
    return runs / (frames / fps / 60)
