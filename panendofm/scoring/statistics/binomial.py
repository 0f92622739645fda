"""Intervals of a share: k of n."""

from __future__ import annotations

from math import sqrt

from scipy.stats import norm

from panendofm.scoring.statistics.intervals import Interval


def wilson(k: float, n: float, level: float = 0.95) -> Interval | None:
    """Wilson's score interval; None without trials."""
    if n <= 0:
        return None
    z = float(norm.ppf((1 + level) / 2))
    share, spread = k / n, z * z / n
    center = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    # At the ends the formula is exact in algebra and off by a rounding error in floating point.
    return Interval(0.0 if k == 0 else center - half, 1.0 if k == n else center + half)
