"""What profiles of points compute their metrics from: points in findings and beside them, under bootstrap weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.classification.rates import Counts, Floats, f_score
from panendofm.scoring.statistics.replicates import mean_replicates


@dataclass(frozen=True)
class PlacedPoints:
    """Counts of frames [N], of all classes together; metrics are [1 + R] for R replicates."""

    found: Floats  # findings with a point in them
    false: Floats  # points outside
    missed: Floats  # findings without one
    video: NDArray[np.int64]  # the number of each frame's file
    weights: Floats  # [1 + R, N]

    def counts(self) -> Counts:
        tp, fp, fn = (self.weights @ part for part in (self.found, self.false, self.missed))
        return Counts(tp, fp, fn, np.zeros_like(tp))

    def mean_f1_of_videos(self) -> Floats:
        """Over the videos that have a finding or a point."""
        tp, fp, fn = (np.bincount(self.video, part) for part in (self.found, self.false, self.missed))
        first = np.unique(self.video, return_index=True)[1]  # all frames of a video are drawn together
        return mean_replicates(f_score(Counts.of(tp, fp, fn, np.zeros_like(tp))), self.weights[:, first])
