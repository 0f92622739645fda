"""Which samples an epoch has when every corpus has a weight: a stretch of each corpus's endless stream.

A corpus runs through permutations of its own, cycle after cycle. An epoch takes the next stretch of it: the rest of a
cycle, some whole ones, the beginning of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from pretrain.data.order.epoch_samples import Layer, Layers, place_type
from pretrain.data.order.keyed_random import Ints, fill_stretch


class _Piece(NamedTuple):
    """A part of one cycle of a corpus."""

    corpus: int
    cycle: int
    begin: int
    end: int


class CorpusWeights:
    """Weights of corpora [C], whose samples begin at `starts` [C + 1]; runs [R] are of `corpora` and begin likewise."""

    def __init__(self, weights: list[float], starts: Ints, corpora: Ints, run_starts: Ints) -> None:
        self._starts = starts
        self._corpora = corpora
        self._run_starts = run_starts
        self._sizes = np.diff(starts)
        self.counts = _shares(np.asarray(weights, float), self._sizes)  # [C], samples of an epoch

    def epoch(self, stream: tuple[int, ...], epoch: int) -> Layers:
        """Samples of an epoch; a use is the number of the cycle: how often the sample was used before."""
        rests, beginnings = [], []
        whole, first_whole = np.zeros_like(self.counts), np.zeros_like(self.counts)  # [C]
        for corpus, (count, size) in enumerate(zip(self.counts.tolist(), self._sizes.tolist(), strict=True)):
            if not count:
                continue
            cycle, offset = divmod(epoch * count, size)
            rest = min(count, size - offset) if offset else 0
            if rest:
                rests.append(_Piece(corpus, cycle, offset, offset + rest))
            first_whole[corpus] = cycle + (offset > 0)
            whole[corpus], left = divmod(count - rest, size)
            if left:
                beginnings.append(_Piece(corpus, int(first_whole[corpus] + whole[corpus]), 0, left))
        layers = [self._pieces(stream, rests), self._pieces(stream, beginnings)]
        if whole.any():
            full = Layer(None, self._run_starts, whole[self._corpora], first_whole[self._corpora])
            layers.insert(1, full)
        return Layers(layers, self._run_starts)

    def _pieces(self, stream: tuple[int, ...], pieces: list[_Piece]) -> Layer:
        places = np.empty(sum(piece.end - piece.begin for piece in pieces), place_type(int(self._starts[-1])))
        uses = np.zeros_like(self._sizes)  # [C]
        filled = 0
        for corpus, cycle, begin, end in pieces:
            into = places[filled : filled + end - begin]
            fill_stretch((*stream, corpus, cycle), int(self._sizes[corpus]), begin, end, into)
            into += into.dtype.type(self._starts[corpus])
            uses[corpus] = cycle
            filled += end - begin
        starts = np.searchsorted(places, self._run_starts)
        return Layer(places, starts, np.ones_like(self._corpora), uses[self._corpora])


def _shares(weights: NDArray[np.float64], sizes: Ints) -> Ints:
    """How many samples of each corpus an epoch has: by the weights, in all as many as there are samples."""
    if len(weights) != len(sizes) or not (weights >= 0).all() or not weights.sum() > 0:
        raise UserError("data.sampling_weights: every corpus needs a weight of 0 or more, one of them above 0.")
    weights = np.where(sizes > 0, weights, 0.0)
    exact = weights / weights.sum() * sizes[weights > 0].sum()
    counts: Ints = np.floor(exact).astype(np.int64)
    left = round(float(exact.sum())) - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts
