"""A metric with its confidence interval, from one array: the metric on all samples, then on each bootstrap replicate.

Every metric here can be computed under sample weights [R, N]. A first row of ones makes it the metric itself, so that
the value and its interval come from one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import group_weights, percentile_interval


@dataclass(frozen=True)
class Estimate:
    """None where a metric is not defined, or has no interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


def value_and_replicate_weights(groups: NDArray[np.int64], bootstrap: BootstrapConfig) -> Floats:
    """Weights [1 + R, N]: a row of ones, then how often each sample is drawn when whole groups are."""
    drawn = group_weights(groups, bootstrap.replicates, bootstrap.seed)
    return np.concatenate([np.ones((1, len(groups))), drawn])


def estimate(values: ArrayLike, confidence: float, groups: int = 2) -> Estimate:
    """From values [1 + R] under such weights. One group has no spread: an interval of it would have no width."""
    row = np.atleast_1d(np.asarray(values, np.float64))
    low, high = (percentile_interval(row[1:], confidence) if groups > 1 else None) or (None, None)
    return Estimate(defined(row[0]), low, high)


def defined(value: float) -> float | None:
    """None for NaN, which JSON does not know."""
    return None if np.isnan(value) else float(value)
