"""Which samples each optimizer step sees, as a pure function of (seed, epoch, position).

Nothing here knows of ranks, workers or restarts: step k is the global batch of positions k·B … (k+1)·B − 1, cut into
microgroups of equal size; a rank takes whole microgroups. So a run on any number of ranks sees the same samples in the
same microgroups.

An epoch is dealt to its batches (`epoch_layout.py`), and a batch in the same manner to its microgroups: this spreads
what is left of a video over them. A batch that two epochs share is looked after in `epoch_boundary.py`.

With windows an epoch visits the shards a few at a time: they are shuffled and cut into windows, and each window is laid
out by itself. Every shard is a fair sample of the corpora, so a window is one too. Whoever reads shard by shard then
needs the files of two windows at a time instead of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from pretrain.data.order.corpus_weights import CorpusWeights
from pretrain.data.order.epoch_boundary import separate_videos
from pretrain.data.order.epoch_layout import EpochPart, Members
from pretrain.data.order.epoch_samples import EpochSamples, Samples, all_once
from pretrain.data.order.keyed_random import Ints, random_words, shuffled, words_of
from pretrain.data.order.sample_weights import SampleWeights
from pretrain.data.order.samples_by_video import SampleRuns

# Changes when the same arguments give other batches: a run goes on with the version that it began with.
ORDER_VERSION = 2

# The purposes that random numbers are drawn for, so that no two share a stream.
_CYCLE, _PART, _BATCH_VIDEO, _BATCH_SAMPLE, _BATCH_DEAL, _SUBSTITUTE, _WINDOW, _WEIGHTED = range(8)
# Parts and selections that are kept: a batch may lie in two.
_KEPT = 2

# Words that name a part of an epoch: (epoch,), or (epoch, window).
PartName = tuple[int, ...]


class OrderedBatch(NamedTuple):
    """The samples of one optimizer step, microgroup after microgroup."""

    rows: Ints  # [B], which sample
    # [B], how many times the run has used that sample before (in an unweighted run: the epoch). With weights of
    # samples another number that no other use of the sample has.
    uses: Ints
    positions: Ints  # [B], position in the run, from 0


class _Selection(NamedTuple):
    """The samples of an epoch."""

    samples: EpochSamples
    edges: Ints  # [windows + 1], positions in the run at which windows begin and end


class DataOrder:
    """The order of samples, each of a corpus and a video.

    `weights` gives every corpus its share of the samples seen; without it each sample is seen once an epoch. With it
    an epoch still has as many samples as the corpora hold, and every corpus runs through permutations of its own.
    `sample_weights` gives every sample a weight of its own instead: how often an epoch of N sees it.
    `window_shards` is the largest number of shards in a window; `shards` [N] then names the shard of every sample.
    """

    def __init__(
        self,
        samples: SampleRuns,
        seed: int,
        batch_images: int,
        microgroup_images: int,
        weights: list[float] | None = None,
        shards: NDArray[np.integer] | None = None,
        window_shards: int | None = None,
        sample_weights: SampleWeights | None = None,
    ) -> None:
        if batch_images % microgroup_images:
            raise UserError(
                f"batch.images={batch_images} is not a multiple of batch.microgroup_images={microgroup_images}; "
                "change one."
            )
        if not len(samples.rows):
            raise UserError("there are no samples to train on; check data.shards.")
        self.seed = seed
        self.batch_images = batch_images
        self.microgroup_images = microgroup_images
        self._take(samples)
        sizes = np.diff(self._corpus_starts)
        self._of_corpora = None
        self._of_samples = sample_weights
        if sample_weights is None and weights is not None:
            self._of_corpora = CorpusWeights(weights, self._corpus_starts, self._run_corpora, self._run_starts)
        self._counts = sizes if self._of_corpora is None else self._of_corpora.counts
        self.epoch_images = int(self._counts.sum())
        self._windows = 1
        self._shard_count = 0
        self._shards: NDArray[np.int32] | None = None
        if window_shards is not None:
            assert shards is not None
            self._shards = shards[self._rows].astype(np.int32, copy=False)
            self._shard_count = int(self._shards.max()) + 1
            self._windows = -(-self._shard_count // window_shards)
        self._selections: dict[int, _Selection] = {}
        self._parts: dict[PartName, EpochPart] = {}

    def _take(self, samples: SampleRuns) -> None:
        """A sample's place among the sorted ones stands for it from here on."""
        self._rows = samples.rows  # [N], by place
        self._run_corpora = samples.corpora
        self._run_starts = samples.starts
        corpus_sizes = np.bincount(samples.corpora, weights=samples.sizes).astype(np.int64)
        self._corpus_starts = np.concatenate([[0], np.cumsum(corpus_sizes)])

    @property
    def weights_sha256(self) -> str | None:
        """Of the samples' weights, where they have any: a run goes on with the very same ones only."""
        return None if self._of_samples is None else self._of_samples.sha256

    def batch(self, step: int) -> OrderedBatch:
        """The global batch of a step."""
        B, microgroups = self.batch_images, self.batch_images // self.microgroup_images
        parts = [self._part(name).members(step) for name in self.parts_of(step)]
        members = Members(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        of_sample = random_words((self.seed, _BATCH_SAMPLE, step), B)
        of_video = words_of((self.seed, _BATCH_VIDEO, step), members.videos)
        line = np.lexsort((of_sample, members.videos, of_video, members.corpora))
        capacities = np.full(microgroups, self.microgroup_images)
        dealt = _deal(members.videos[line], capacities, (self.seed, _BATCH_DEAL, step))
        line = line[np.argsort(dealt, kind="stable")]
        rows = self._rows[members.places[line]].astype(np.int64)
        return OrderedBatch(rows, members.uses[line], np.arange(step * B, (step + 1) * B))

    def substitute(self, position: int, attempt: int) -> int:
        """The sample that stands in at a position whose own can't be read."""
        word = int(random_words((self.seed, _SUBSTITUTE, position, attempt), 1)[0])
        if self._of_samples is not None:
            return int(self._rows[self._of_samples.draw(word)])
        sizes = np.where(self._counts > 0, np.diff(self._corpus_starts), 0)
        number = word % int(sizes.sum())
        corpus = int(np.searchsorted(np.cumsum(sizes), number, side="right"))
        return int(self._rows[self._corpus_starts[corpus] + number - (np.cumsum(sizes) - sizes)[corpus]])

    def shards_ahead(self, step: int) -> Ints:
        """Shards of the window that a step ends in, and of the one that follows it."""
        if self._shards is None:
            raise ValueError("this order has no windows")
        epoch, window = self.parts_of(step)[-1]
        following = (epoch, window + 1) if window + 1 < self._windows else (epoch + 1, 0)
        return np.concatenate([self._window_shards(epoch, window), self._window_shards(*following)])

    def parts_of(self, step: int) -> list[PartName]:
        """The parts of epochs that a step's batch lies in, in their order."""
        begin, end = step * self.batch_images, (step + 1) * self.batch_images
        names: list[PartName] = []
        for epoch in range(begin // self.epoch_images, (end - 1) // self.epoch_images + 1):
            if self._shards is None:
                names.append((epoch,))
                continue
            edges = self._selection(epoch).edges
            overlaps = (edges[:-1] < end) & (edges[1:] > begin) & (edges[1:] > edges[:-1])
            names += [(epoch, int(window)) for window in np.flatnonzero(overlaps)]
        return names

    def _part(self, name: PartName) -> EpochPart:
        if name not in self._parts:
            part = self._dealt(name)
            earlier = self.parts_of(part.first_batch)
            earlier = earlier[: earlier.index(name)]
            if earlier:
                known = [self._parts[n] if n in self._parts else self._dealt(n) for n in earlier]
                separate_videos(part, np.concatenate([p.members(part.first_batch).videos for p in known]))
            while len(self._parts) >= _KEPT:
                del self._parts[next(iter(self._parts))]
            self._parts[name] = part
        return self._parts[name]

    def _dealt(self, name: PartName) -> EpochPart:
        """The samples of a part, dealt to its batches, whose first and last it may share with its neighbors."""
        B, window = self.batch_images, name[1] if len(name) > 1 else 0
        edges = self._selection(name[0]).edges
        begin, end = int(edges[window]), int(edges[window + 1])
        first, last = begin // B, (end - 1) // B
        batch_edges = np.clip(np.arange(first, last + 2) * B, begin, end)
        return EpochPart(self._samples(name), self._run_corpora, first, batch_edges, (self.seed, _PART, *name))

    def _samples(self, name: PartName) -> Samples:
        """The samples of a part."""
        samples = self._selection(name[0]).samples
        if self._shards is None:
            return samples
        chosen = np.zeros(self._shard_count, bool)
        chosen[self._window_shards(*name)] = True
        return samples.of_shards(self._shards, chosen)

    def _selection(self, epoch: int) -> _Selection:
        """Which samples an epoch has, and where its windows begin and end."""
        if epoch not in self._selections:
            samples = self._epoch(epoch)
            start = epoch * self.epoch_images
            edges = np.array([start, start + self.epoch_images])
            if self._shards is not None:
                per_shard = samples.per_shard(self._shards, self._shard_count)
                windows = [per_shard[self._window_shards(epoch, window)].sum() for window in range(self._windows)]
                edges = start + np.concatenate([[0], np.cumsum(windows)])
            self._selections = {e: kept for e, kept in self._selections.items() if abs(e - epoch) < _KEPT}
            self._selections[epoch] = _Selection(samples, edges)
        return self._selections[epoch]

    def _epoch(self, epoch: int) -> EpochSamples:
        if self._of_samples is not None:
            return self._of_samples.epoch((self.seed, _WEIGHTED), epoch)
        if self._of_corpora is not None:
            return self._of_corpora.epoch((self.seed, _CYCLE), epoch)
        return all_once(self._run_starts, epoch)

    def _window_shards(self, epoch: int, window: int) -> Ints:
        """The shards of a window; windows are as equal as can be."""
        part: Ints = np.array_split(shuffled((self.seed, _WINDOW, epoch), self._shard_count), self._windows)[window]
        return part


def _deal(videos: Ints, capacities: Ints, stream: tuple[int, ...]) -> Ints:
    """Deal a line of samples to batches of the given capacities: the batch of every sample.

    `videos` [n] names the video of each sample in the line; equal ones are neighbors. Each round gives one sample to
    every batch; a batch that is smaller than the others sits out some rounds, evenly spaced. A video that goes on from
    one round into the next gets those batches first that hold the fewest of its samples.
    """
    rounds = int(capacities.max())
    result = np.empty(len(videos), np.int64)
    held = np.zeros(len(capacities), np.int64)  # samples that each batch holds of the video that ended the last round
    begin = 0
    for number in range(rounds):
        batches = np.flatnonzero((number + 1) * capacities // rounds > number * capacities // rounds)
        batches = batches[shuffled((*stream, number), len(batches))]
        line = videos[begin : begin + len(batches)]
        if begin and line[0] == videos[begin - 1]:
            going_on = int(np.count_nonzero(line == line[0]))
            fewest_first = np.argsort(held[batches], kind="stable")
            # The video takes the best places, the others keep their random order.
            chosen = np.sort(fewest_first[going_on:])
            batches = np.concatenate([batches[fewest_first[:going_on]], batches[chosen]])
        if not begin or line[-1] != videos[begin - 1]:
            held[:] = 0
        held[batches[line == line[-1]]] += 1
        result[begin : begin + len(batches)] = batches
        begin += len(batches)
    return result
