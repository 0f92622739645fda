"""Positive pairs from videos: the second global crop of a sample comes from another frame of its video."""

from __future__ import annotations

import numpy as np

from pretrain.data.order.samples_by_video import SampleRuns
from pretrain.randomness import numpy_generator


class VideoPairs:
    """Partners as a pure function of (seed, use, sample): the same on any rank, in any worker, after any restart."""

    def __init__(self, samples: SampleRuns, seed: int) -> None:
        self._rows, self._starts, self._seed = samples.rows, samples.starts, seed
        self._place_of = np.empty_like(samples.rows)  # [N]
        self._place_of[samples.rows] = np.arange(len(samples.rows), dtype=samples.rows.dtype)

    def partner(self, row: int, use: int) -> int:
        """Another sample of the same video; the sample itself when it is its video's only one."""
        place = int(self._place_of[row])
        video = int(np.searchsorted(self._starts, place, side="right")) - 1
        start, end = int(self._starts[video]), int(self._starts[video + 1])
        if end - start == 1:
            return row
        shift = 1 + int(numpy_generator(self._seed, "pair", use, row).integers(end - start - 1))
        return int(self._rows[start + (place - start + shift) % (end - start)])
