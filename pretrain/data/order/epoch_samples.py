"""The samples of an epoch, or of one window of it, run by run: what `epoch_layout.py` deals to batches.

All samples are sorted by corpus and video, and a sample's place there stands for it; a run is what there is of a video.
What can be found when a batch asks for it is not written out: an epoch of ten million samples takes a few bytes for
each, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pretrain.data.order.keyed_random import Ints

Places = NDArray[np.integer]
Bools = NDArray[np.bool_]
Shards = NDArray[np.int32]

# Samples that are looked at together: numbers of a whole epoch's would take more memory than all that is kept.
CHUNK = 1 << 17


class Samples(Protocol):
    """Samples in runs."""

    @property
    def counts(self) -> Ints:
        """[R], samples of each run."""

    def find(self, runs: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        """Places and uses of single samples: of these runs [n] those with these numbers [n], from 0 on."""


class EpochSamples(Samples, Protocol):
    """All samples of an epoch; `shards` [N] is the shard of every place."""

    def per_shard(self, shards: Shards, count: int) -> Ints:
        """[count], how many samples each shard has."""

    def of_shards(self, shards: Shards, chosen: Bools) -> Samples:
        """Those of the chosen shards, in the same order."""


@dataclass(frozen=True)
class Layer:
    """Some places; each run goes through its own `times` times."""

    places: Places | None  # [n], rising; None: all there are
    starts: Ints  # [R + 1], where runs begin in `places`
    times: Ints  # [R]
    first_uses: Ints  # [R], of the first time; a use each time


@dataclass(frozen=True)
class Layers:
    """A run has what it has of the first layer, then what it has of the next."""

    layers: list[Layer]
    run_starts: Ints  # [R + 1], places

    @property
    def counts(self) -> Ints:
        counts: Ints = np.sum([np.diff(layer.starts) * layer.times for layer in self.layers], axis=0)
        return counts

    def find(self, runs: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        places, uses = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
        left = numbers.copy()  # below 0: found
        for layer in self.layers:
            begins, sizes = layer.starts[runs], layer.starts[runs + 1] - layer.starts[runs]
            count = sizes * layer.times[runs]
            here = np.flatnonzero((left >= 0) & (left < count))
            time, number = np.divmod(left[here], sizes[here])
            index = begins[here] + number
            places[here] = index if layer.places is None else layer.places[index]
            uses[here] = layer.first_uses[runs[here]] + time
            left -= count
        return places, uses

    def per_shard(self, shards: Shards, count: int) -> Ints:
        total = np.zeros(count, np.int64)
        for layer in self.layers:
            for begin, places in _chunks(layer.places, len(shards)):
                end = begin + len(places)
                first, last = np.searchsorted(layer.starts, [begin, end - 1], side="right") - 1
                edges: Ints = np.clip(layer.starts[first : last + 2], begin, end)
                sizes = edges[1:] - edges[:-1]
                times = np.repeat(layer.times[first : last + 1], sizes)
                total += np.bincount(shards[places], times, count).astype(np.int64)
        return total

    def of_shards(self, shards: Shards, chosen: Bools) -> Layers:
        layers = []
        for layer in self.layers:
            kept = [places[chosen[shards[places]]] for _, places in _chunks(layer.places, len(shards))]
            places = np.concatenate([np.empty(0, np.int32), *kept])
            starts = np.searchsorted(places, self.run_starts)
            layers.append(Layer(places, starts, layer.times, layer.first_uses))
        return Layers(layers, self.run_starts)


@dataclass(frozen=True)
class Listed:
    """Samples that are written out."""

    places: Places  # [n], rising
    uses: NDArray[np.integer]  # [n]
    starts: Ints  # [R + 1], where runs begin

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)

    def find(self, runs: Ints, numbers: Ints) -> tuple[Ints, Ints]:
        index = self.starts[runs] + numbers
        return self.places[index].astype(np.int64), self.uses[index].astype(np.int64)


def all_once(run_starts: Ints, use: int) -> Layers:
    """Every sample once."""
    runs = len(run_starts) - 1
    layer = Layer(None, run_starts, np.ones(runs, np.int64), np.full(runs, use))
    return Layers([layer], run_starts)


def place_type(samples: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if samples < 2**31 else np.int64


def _chunks(places: Places | None, samples: int) -> Iterator[tuple[int, Places]]:
    """Some places at a time, and how many came before."""
    for begin in range(0, samples if places is None else len(places), CHUNK):
        if places is None:
            yield begin, np.arange(begin, min(begin + CHUNK, samples), dtype=place_type(samples))
        else:
            yield begin, places[begin : begin + CHUNK]
