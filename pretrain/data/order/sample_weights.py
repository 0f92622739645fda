"""Which samples an epoch has when each has a weight of its own: systematic sampling, in whole numbers.

The samples stand side by side on a line, each as long as its weight, the whole line N long. An epoch has a comb of N
teeth at distance 1, shifted by the epoch's phase, and takes each sample as often as a tooth hits it. So an epoch has
exactly N samples; a sample of weight 2.3 is in it two or three times; videos and corpora, whose samples are neighbors,
get their shares but for one sample. From epoch to epoch the phase moves by the golden ratio: the epochs that see a
sample of weight 0.1 lie about ten apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pretrain.data.order.epoch_samples import CHUNK, Bools, Listed, Places, Shards, place_type
from pretrain.data.order.keyed_random import Ints, random_words
from pretrain.data.order.samples_by_video import SampleRuns

# The line is measured in 2^-32: from here on nothing is rounded.
_UNIT_BITS = 32
_UNIT = 1 << _UNIT_BITS
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True)
class SampleWeights:
    """Samples by weight: where each ends on the line, in the order of their places."""

    ends: Ints  # [N]
    run_starts: Ints  # [R + 1], the places at which runs begin
    most: int  # times that a sample is in an epoch
    sha256: str  # of the ends

    @classmethod
    def of(cls, weights: NDArray[np.float64], runs: SampleRuns) -> SampleWeights:
        """From weights [N] of the samples that `runs` sorts; they need not have any sum."""
        ends = _ends_on_the_line(weights[runs.rows])
        longest = max(int(np.diff(ends, prepend=before).max()) for _, before, ends in _chunks(ends))
        return cls(ends, runs.starts, -(-longest // _UNIT), hashlib.sha256(ends.data).hexdigest())

    def epoch(self, stream: tuple[int, ...], epoch: int) -> Comb:
        first = int(random_words(stream, 1)[0]) % _UNIT
        return Comb(self.ends, self.run_starts, (first + epoch * _GOLDEN) % _UNIT, epoch * self.most)

    def draw(self, word: int) -> int:
        """The place that a random word points at, by weight."""
        return int(np.searchsorted(self.ends, word % int(self.ends[-1]), side="right"))


@dataclass(frozen=True)
class Comb:
    """The samples of an epoch: tooth number i hits one, which is found when it is asked for."""

    ends: Ints  # [N], where each sample ends on the line
    run_starts: Ints  # [R + 1], places
    phase: int
    first_use: int

    @property
    def counts(self) -> Ints:
        return np.diff(self._run_teeth())

    def find(self, runs: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        """A use is a number that no other use of the sample has."""
        tooth = self._run_teeth()[runs] + numbers
        places = np.searchsorted(self.ends, ((tooth + 1) << _UNIT_BITS) - self.phase)
        return places, self._uses(tooth - self._teeth_before(places)).astype(np.int64)

    def per_shard(self, shards: Shards, count: int) -> Ints:
        total = np.zeros(count, np.int64)
        for begin, before, ends in _chunks(self.ends):
            hits = np.diff(self._teeth(ends), prepend=self._teeth(before))
            total += np.bincount(shards[begin : begin + len(ends)], hits, count).astype(np.int64)
        return total

    def of_shards(self, shards: Shards, chosen: Bools) -> Listed:
        parts: list[Places] = []
        for begin, before, ends in _chunks(self.ends):
            hits = np.diff(self._teeth(ends), prepend=self._teeth(before))
            hits[~chosen[shards[begin : begin + len(ends)]]] = 0
            parts.append(np.repeat(np.arange(begin, begin + len(ends), dtype=place_type(len(shards))), hits))
        places = np.concatenate(parts)
        is_first = np.diff(places, prepend=-1) > 0
        copies = np.arange(len(places)) - np.maximum.accumulate(np.where(is_first, np.arange(len(places)), 0))
        return Listed(places, self._uses(copies), np.searchsorted(places, self.run_starts))

    def _uses(self, copies: Ints) -> NDArray[np.int32]:
        return (self.first_use + copies).astype(np.int32)

    def _run_teeth(self) -> Ints:
        """[R + 1], teeth before each run."""
        return self._teeth_before(self.run_starts)

    def _teeth_before(self, places: Ints) -> Ints:
        """How many teeth lie before each of some places."""
        return np.where(places > 0, self._teeth(self.ends[places - 1]), 0)

    def _teeth(self, ends: Ints) -> Ints:
        """How many teeth lie before these points of the line."""
        teeth: Ints = (ends + self.phase) >> _UNIT_BITS
        return teeth


def _ends_on_the_line(weights: NDArray[np.float64]) -> Ints:
    """Where each sample ends [N]; takes the memory of the weights, which are as large as all else of a rank."""
    ends = np.cumsum(weights, out=weights)  # one after another, and so the same on every machine
    ends *= len(ends) / ends[-1]
    last, line = ends[-1], len(ends) << _UNIT_BITS
    exact: Ints = ends.view(np.int64)
    for begin in range(0, len(ends), CHUNK):
        part = ends[begin : begin + CHUNK].copy()
        # Whole samples and the rest by themselves: both are exact.
        whole = np.floor(part)
        of_part = (whole.astype(np.int64) << _UNIT_BITS) + np.floor((part - whole) * _UNIT).astype(np.int64)
        # The last one, and those of weight 0 behind it, end with the line.
        exact[begin : begin + CHUNK] = np.where(part == last, line, np.minimum(of_part, line))
    return exact


def _chunks(ends: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Some samples at a time: the place of the first, where it begins on the line, and where each ends."""
    for begin in range(0, len(ends), CHUNK):
        before = ends[begin - 1 : begin] if begin else np.zeros(1, np.int64)
        yield begin, before, ends[begin : begin + CHUNK]
