"""A figure with its interval, as results store it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.statistics.intervals import percentile_interval

Floats = NDArray[np.float64]


def figure(value: float | Floats, replicates: Floats | None = None, level: float = 0.95) -> dict[str, Any]:
    """{value, low, high}; None where a figure is not defined."""
    number = float(value)
    interval = percentile_interval(replicates, level) if replicates is not None and len(replicates) else None
    return {
        "value": None if math.isnan(number) else number,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def shown(found: dict[str, Any] | None, digits: int = 4) -> str:
    """«0.9397 (0.9351–0.9440)»; a dash where there is no figure."""
    if found is None or found["value"] is None:
        return "–"
    text = f"{found['value']:.{digits}f}"
    return text if found["low"] is None else f"{text} ({found['low']:.{digits}f}–{found['high']:.{digits}f})"


def weighted_means(values: Floats, weights: Floats) -> Floats:
    """Means of values [N] under weights [R, N], over what is not NaN."""
    known = ~np.isnan(values)
    total = weights @ known.astype(np.float64)
    sums = weights @ np.where(known, values, 0.0)
    return np.asarray(np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0))


def mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def none_for_nan(value: float | Floats | None) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)
