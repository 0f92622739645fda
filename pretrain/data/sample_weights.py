"""Which samples an epoch has when each has a weight of its own: systematic sampling, in whole numbers.

The samples stand side by side on a line, each as long as its weight, the whole line N long. An epoch has a comb of N
teeth at distance 1, shifted by the epoch's phase, and takes each sample as often as a tooth hits it. So an epoch has
exactly N samples; a sample of weight 2.3 is in it two or three times; videos and corpora, whose samples are neighbours,
get their shares but for one sample. From epoch to epoch the phase moves by the golden ratio: the epochs that see a
sample of weight 0.1 lie about ten apart.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from pretrain.data.keyed_random import Ints, random_words

# The line is measured in 2^-32: from here on nothing is rounded.
_UNIT_BITS = 32
_UNIT = 1 << _UNIT_BITS
_GOLDEN = 0x9E3779B9


class SampleWeights:
    """Weights [N] of samples, by their places; they need not have any particular sum."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        ends = np.cumsum(weights)  # one after another, and so the same on every machine
        ends *= len(weights) / ends[-1]
        # Whole samples and the rest by themselves: both are exact.
        whole = np.floor(ends)
        self._ends = whole.astype(np.int64) << _UNIT_BITS  # [N], where each sample ends on the line
        self._ends += np.floor((ends - whole) * _UNIT).astype(np.int64)
        line = len(weights) << _UNIT_BITS
        np.minimum(self._ends, line, out=self._ends)
        self._ends[ends == ends[-1]] = line  # the last one, and those of weight 0 behind it
        longest = int(np.diff(self._ends, prepend=0).max())
        self._most = -(-longest // _UNIT)  # times that a sample is in an epoch

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._ends.tobytes()).hexdigest()

    def epoch(self, stream: tuple[int, ...], epoch: int) -> tuple[Ints, NDArray[np.int32]]:
        """Places [N] of an epoch's samples, rising, and a number of each use that no other use of the sample has."""
        first = int(random_words(stream, 1)[0]) % _UNIT
        phase = (first + epoch * _GOLDEN) % _UNIT
        teeth = (self._ends + phase) >> _UNIT_BITS
        counts = np.diff(teeth, prepend=0)
        places = np.repeat(np.arange(len(counts)), counts)
        copies = np.arange(len(places)) - (teeth - counts)[places]
        return places, (epoch * self._most + copies).astype(np.int32)

    def draw(self, word: int) -> int:
        """The place that a random word points at, by weight."""
        return int(np.searchsorted(self._ends, word % int(self._ends[-1]), side="right"))
