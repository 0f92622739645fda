"""Labels over time: smoothing, segments, their order, and how well they agree with the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

CENTER_HALF_WIDTH = 0.25


@dataclass(frozen=True)
class Segment:
    """Frames [first, end) with one label."""

    first: int
    end: int
    label: str

    @property
    def frames(self) -> int:
        return self.end - self.first

    def iou(self, other: Segment) -> float:
        common = min(self.end, other.end) - max(self.first, other.first)
        return max(0, common) / (max(self.end, other.end) - min(self.first, other.first)) if common > 0 else 0.0


def smooth_probabilities(probabilities: NDArray[np.floating], window: int) -> NDArray[np.float64]:
    """Mean over a centered window of frames [N, C], cut at the ends."""
    half = window // 2
    sums = np.concatenate([np.zeros((1, probabilities.shape[1])), np.cumsum(probabilities, axis=0, dtype=np.float64)])
    frames = np.arange(len(probabilities))
    low, high = np.maximum(frames - half, 0), np.minimum(frames + half + 1, len(probabilities))
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def segments_of(labels: Sequence[str]) -> list[Segment]:
    """Runs of equal labels."""
    starts = [i for i, name in enumerate(labels) if i == 0 or name != labels[i - 1]]
    return [Segment(start, end, labels[start]) for start, end in zip(starts, [*starts[1:], len(labels)], strict=True)]


def join_short(segments: Sequence[Segment], shortest_frames: float) -> list[Segment]:
    """Segments under the limit join their longer neighbor, the shortest first; equal neighbors become one."""
    current = list(segments)
    while len(current) > 1:
        i = min(range(len(current)), key=lambda k: current[k].frames)
        if current[i].frames >= shortest_frames:
            break
        sides = [k for k in (i - 1, i + 1) if 0 <= k < len(current)]
        winner = max(sides, key=lambda k: current[k].frames)
        current[i] = Segment(current[i].first, current[i].end, current[winner].label)
        current = _joined(current)
    return current


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    result: list[Segment] = []
    for segment in segments:
        if result and result[-1].label == segment.label:
            result[-1] = Segment(result[-1].first, segment.end, segment.label)
        else:
            result.append(segment)
    return result


def order_of_events(segments: Sequence[Segment], quality_labels: Collection[str]) -> list[str]:
    """Labels one after the other, without those that say how the image is; equal neighbors are one event."""
    names = [segment.label for segment in segments if segment.label not in quality_labels]
    return [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]


def shares(labels: Sequence[str]) -> dict[str, float]:
    """Share of the frames of each label, the largest first."""
    return {name: count / len(labels) for name, count in Counter(labels).most_common()}


def clock(seconds: float) -> str:
    """mm:ss, cut to whole seconds; the small term undoes a rounding error just below a whole second."""
    whole = int(seconds + 1e-9)
    return f"{whole // 60:02d}:{whole % 60:02d}"


def zone(x: float, y: float) -> str:
    """Where a point of the image lies, x and y in [0, 1]."""
    if abs(x - 0.5) < CENTER_HALF_WIDTH and abs(y - 0.5) < CENTER_HALF_WIDTH:
        return "center"
    return f"{'top' if y < 0.5 else 'bottom'}-{'left' if x < 0.5 else 'right'}"


@dataclass(frozen=True)
class Agreement:
    """Segments against true segments of the same label."""

    events: int
    found: int
    reported: int
    f1: float | None
    right_frames: float
    error_of_shares: dict[str, float]

    @property
    def share_found(self) -> float | None:
        return self.found / self.events if self.events else None


def compare_segments(truth: Sequence[Segment], reported: Sequence[Segment], least_iou: float = 0.5) -> Agreement:
    """Events found at this temporal IoU, each by one segment; share of right frames; error of each label's share."""
    found = _most_pairs(truth, reported, least_iou)
    true_frames, own_frames = _frame_labels(truth), _frame_labels(reported)
    names = sorted({*true_frames, *own_frames} - {""})
    length = max(len(true_frames), len(own_frames), 1)
    total = len(truth) + len(reported)
    return Agreement(
        len(truth),
        found,
        len(reported),
        2 * found / total if total else None,
        sum(a == b for a, b in zip(true_frames, own_frames, strict=False)) / length,
        {name: (own_frames.count(name) - true_frames.count(name)) / length for name in names},
    )


def _most_pairs(truth: Sequence[Segment], reported: Sequence[Segment], least_iou: float) -> int:
    """The largest number of events that can be found at once. Taking the best overlap first may leave fewer."""
    if not truth or not reported:
        return 0
    overlaps = np.array([[t.iou(r) if t.label == r.label else 0.0 for r in reported] for t in truth])  # [T, R]
    fits = csr_array((overlaps >= least_iou) & (overlaps > 0))
    return int(np.sum(maximum_bipartite_matching(fits, perm_type="column") >= 0))


def _frame_labels(segments: Sequence[Segment]) -> list[str]:
    labels = [""] * max((segment.end for segment in segments), default=0)
    for segment in segments:
        labels[segment.first : segment.end] = [segment.label] * segment.frames
    return labels
