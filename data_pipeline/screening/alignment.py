"""Whether one video is another one played at another speed, cut, or with boxes drawn on it.

Frames of such a copy are taken at other moments than those of its original, so that single frames may look no more
alike than those of one procedure do. But their likeness lies on a line: frames that follow one another in the copy have
their likest frames in the original at even steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.image_hash import hamming_distances

Hashes = NDArray[np.uint8]  # [N, 32]
Floats = NDArray[np.float64]

# A copy that plays slower or faster than this can't be told from chance by so few frames.
_SPEEDS = (0.22, 4.5)
# Through fewer frames a line can always be laid.
_MIN_FRAMES = 5
# Frames between which lines are tried; all frames are then measured along the best of them.
_TRIED = 64
# Frames of a video that are compared with the other's: enough for the line, whatever the length.
_COMPARED = 512
# How far from a line a likest frame may be, in steps of the sampling.
_TOLERANCE_STEPS = 1.0
# How much nearer frames must be along the line than beside it: overlays and borders that all frames share are on both.
_MIN_CONTRAST_BITS = 20


class Line(NamedTuple):
    """A moment `t` of one video is `speed · t + offset` of the other."""

    speed: float
    offset: float


def aligned_share(some: Hashes, times: Floats, others: Hashes, other_times: Floats, max_bits: int) -> float:
    """The share of `some` frames that the other video shows at the moment where it should; 0 without such a line.

    `times` rise; they are seconds, or numbers of frames: both are counted in steps of the sampling.
    """
    rows = np.linspace(0, len(some) - 1, min(len(some), _COMPARED)).round().astype(int)
    if min(len(rows), len(others)) < _MIN_FRAMES:
        return 0.0
    times, other_times = times[rows] / _step(times), other_times / _step(other_times)
    distances = hamming_distances(some[rows], others)  # [N, M]
    line = _best_line(times, other_times[distances.argmin(axis=1)])
    if line is None:
        return 0.0
    along = _along(distances, times, other_times, line)
    shown = np.isfinite(along)
    if shown.sum() < _MIN_FRAMES or np.median(along[shown]) > np.median(distances) - _MIN_CONTRAST_BITS:
        return 0.0
    return float((along <= max_bits).mean())


def _step(times: Floats) -> float:
    return float(np.median(np.diff(times)))


def _best_line(times: Floats, likest: Floats) -> Line | None:
    """The line on which most frames [N] have the moment of their likest frame [N]."""
    tried = np.linspace(0, len(times) - 1, min(len(times), _TRIED)).round().astype(int)
    first, second = np.triu_indices(len(tried), 1)
    first, second = tried[first], tried[second]
    apart = times[second] - times[first]
    with np.errstate(divide="ignore", invalid="ignore"):
        speeds = (likest[second] - likest[first]) / apart  # [lines]
    possible = (apart > 0) & (speeds >= _SPEEDS[0]) & (speeds <= _SPEEDS[1])
    if not possible.any():
        return None
    speeds, first = speeds[possible], first[possible]
    offsets = likest[first] - speeds * times[first]
    misses = np.abs(speeds[:, None] * times[tried] + offsets[:, None] - likest[tried])  # [lines, tried]
    best = int((misses <= _TOLERANCE_STEPS).sum(axis=1).argmax())
    line = Line(float(speeds[best]), float(offsets[best]))
    on_it = np.abs(line.speed * times + line.offset - likest) <= _TOLERANCE_STEPS
    if on_it.sum() < 3 or np.ptp(times[on_it]) == 0:
        return line
    return Line(*(float(v) for v in np.polyfit(times[on_it], likest[on_it], 1)))


def _along(distances: NDArray[np.int32], times: Floats, other_times: Floats, line: Line) -> Floats:
    """The distance of each frame [N] to the nearer one of the two between which it should lie; inf beyond the ends."""
    there = line.speed * times + line.offset
    after = np.searchsorted(other_times, there)
    rows, last = np.arange(len(times)), len(other_times) - 1
    nearer = np.minimum(distances[rows, np.clip(after - 1, 0, last)], distances[rows, np.clip(after, 0, last)])
    inside = (there >= other_times[0] - _TOLERANCE_STEPS) & (there <= other_times[-1] + _TOLERANCE_STEPS)
    return np.where(inside, nearer, np.inf)
