"""Time per image: frames per second, percentiles, and what counts as real time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# 45 and 64 stand in the Medico report (results, discussion), 30 in EndoTect.
REAL_TIME_FPS = (30, 45, 64)
# Beyond these a column of seconds was probably read as milliseconds, or the other way round.
BELIEVABLE_FPS = (0.1, 2000.0)


@dataclass(frozen=True)
class Speed:
    images: int
    mean_ms: float
    median_ms: float
    p95_ms: float
    fps: float

    def real_time(self) -> dict[str, bool]:
        return {f"at_{limit}": self.fps >= limit for limit in REAL_TIME_FPS}

    @property
    def believable(self) -> bool:
        return BELIEVABLE_FPS[0] <= self.fps <= BELIEVABLE_FPS[1]


def speed_of(time_ms: NDArray[np.float64]) -> Speed:
    """FPS is 1000 / mean time, not the mean of 1000 / time: slow images must not be averaged away."""
    mean = float(time_ms.mean())
    return Speed(len(time_ms), mean, float(np.median(time_ms)), float(np.quantile(time_ms, 0.95)), 1000 / mean)


def fps_replicates(time_ms: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """FPS under each row of weights [R, N]."""
    return np.asarray(1000 * weights.sum(axis=1) / (weights @ time_ms))
