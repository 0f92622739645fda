"""Which samples each optimiser step sees, as a pure function of (seed, epoch, position).

Nothing here knows of ranks, workers or restarts: step k is the global batch of positions k·B … (k+1)·B − 1, cut into
groups of equal size; a rank takes whole groups. So a run on any number of ranks sees the same samples in the same
groups.

How an epoch is laid out. Its samples stand in one line, sorted by corpus and, in random order, by video. They are dealt
like cards to the epoch's batches, one card to each batch per round, in a new random order every round. A run of
samples that is not longer than the number of batches thus falls into different batches: this spreads every video as
widely as possible and gives every batch its fair share of every corpus. Inside a batch the same deal spreads what is
left of a video over the groups.

With windows an epoch visits the shards a few at a time: they are shuffled and cut into windows, and each window is laid
out by itself, as above. Every shard is a fair sample of the corpora, so a window is one too. Whoever reads shard by
shard then needs the files of two windows at a time instead of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError

Ints = NDArray[np.int64]

# Changes when the same arguments give other batches: a run goes on with the version that it began with.
ORDER_VERSION = 1

# The purposes that random keys are drawn for, so that no two share a stream.
_CYCLE, _VIDEO, _SAMPLE, _DEAL, _BATCH_VIDEO, _BATCH_SAMPLE, _BATCH_DEAL, _REPAIR, _SUBSTITUTE, _WINDOW = range(10)
# Epoch parts that are kept: a batch may lie in two.
_KEPT_PARTS = 2


class OrderedBatch(NamedTuple):
    """The samples of one optimiser step, group after group."""

    rows: Ints  # [B], which sample
    uses: Ints  # [B], how many times the run has used that sample before (in an unweighted run: the epoch)
    positions: Ints  # [B], position in the run, from 0


# Words that name a part: (epoch,), or (epoch, window).
_Name = tuple[int, ...]


@dataclass(frozen=True)
class _EpochPart:
    """An epoch, or one window of it, laid out."""

    rows: Ints  # [n], batch after batch
    uses: Ints  # [n]
    first_batch: int
    starts: Ints  # [batches + 1], where each batch's part begins in `rows`

    def of_batch(self, batch: int) -> tuple[Ints, Ints]:
        k = batch - self.first_batch
        here = slice(int(self.starts[k]), int(self.starts[k + 1]))
        return self.rows[here], self.uses[here]


class DataOrder:
    """The order of a corpus of samples, each of a corpus (`corpora` [N], numbers from 0) and a video (`videos` [N]).

    `weights` gives every corpus its share of the samples seen; without it each sample is seen once an epoch. With it
    an epoch still has as many samples as the corpora hold, and every corpus runs through permutations of its own.
    `window_shards` is the largest number of shards in a window; `shards` [N] then names the shard of every sample.
    """

    def __init__(
        self,
        corpora: Ints,
        videos: Ints,
        seed: int,
        batch_images: int,
        microgroup_images: int,
        weights: list[float] | None = None,
        shards: Ints | None = None,
        window_shards: int | None = None,
    ) -> None:
        if batch_images % microgroup_images:
            raise UserError(
                f"batch.images={batch_images} is not a multiple of batch.microgroup_images={microgroup_images}; "
                "change one."
            )
        self.seed, self.batch_images, self.microgroup_images = seed, batch_images, microgroup_images
        self._corpora = corpora.astype(np.int64)
        self._videos = np.unique(videos, return_inverse=True)[1].astype(np.int64)
        self._members = [np.flatnonzero(corpora == c) for c in range(int(corpora.max()) + 1 if len(corpora) else 0)]
        sizes = np.array([len(m) for m in self._members])
        self._counts = sizes if weights is None else _shares(np.asarray(weights, float), sizes)
        self.epoch_images = int(self._counts.sum())
        if not self.epoch_images:
            raise UserError("there are no samples to train on; check data.shards and data.weights.")
        self._pool = np.concatenate([m for m, c in zip(self._members, self._counts, strict=True) if c])
        self._shards = None if window_shards is None else shards
        if self._shards is not None:
            self._shard_count = int(self._shards.max()) + 1
            self._windows = -(-self._shard_count // (window_shards or 1))
        self._parts: dict[_Name, _EpochPart] = {}
        self._draws: dict[int, tuple[Ints, Ints, Ints]] = {}

    def batch(self, step: int) -> OrderedBatch:
        """The global batch of a step."""
        B = self.batch_images
        parts = [self._part(name).of_batch(step) for name in self._parts_of(step)]
        rows, uses = (np.concatenate(p) for p in zip(*parts, strict=True))
        line = self._line(rows, _BATCH_VIDEO, _BATCH_SAMPLE, step)
        groups = np.full(B // self.microgroup_images, self.microgroup_images)
        dealt = line[
            np.argsort(_deal(self._videos[rows[line]], groups, self._stream(_BATCH_DEAL, step)), kind="stable")
        ]
        return OrderedBatch(rows[dealt], uses[dealt], np.arange(step * B, (step + 1) * B))

    def substitute(self, position: int, attempt: int) -> int:
        """The sample that stands in at a position whose own can't be read."""
        number = int(_keys(self._stream(_SUBSTITUTE, position, attempt), 1)[0])
        return int(self._pool[number % len(self._pool)])

    def shards_ahead(self, step: int) -> Ints:
        """Shards of the window that a step ends in, and of the one that follows it."""
        if self._shards is None:
            raise ValueError("this order has no windows")
        epoch, window = self._parts_of(step)[-1]
        following = (epoch, window + 1) if window + 1 < self._windows else (epoch + 1, 0)
        return np.concatenate([self._window_shards(epoch, window), self._window_shards(*following)])

    def _stream(self, *words: int) -> tuple[int, ...]:
        return (self.seed, *words)

    def _line(self, rows: Ints, video_purpose: int, sample_purpose: int, *name: int) -> Ints:
        """Positions in `rows`, sorted by corpus, then by video in random order, then at random."""
        videos = self._videos[rows]
        of_sample = _keys(self._stream(sample_purpose, *name), len(rows))
        of_video = _mix(_keys(self._stream(video_purpose, *name), 1)[0] ^ _mix(videos.astype(np.uint64)))
        return np.lexsort((of_sample, videos, of_video, self._corpora[rows]))

    def _parts_of(self, step: int) -> list[_Name]:
        """The epoch parts that a step's batch lies in, in their order."""
        B, n = self.batch_images, self.epoch_images
        begin, end = step * B, (step + 1) * B
        names: list[_Name] = []
        for epoch in range(begin // n, (end - 1) // n + 1):
            if self._shards is None:
                names.append((epoch,))
                continue
            edges = self._draw(epoch)[2]
            here = (edges[:-1] < end) & (edges[1:] > begin) & (edges[1:] > edges[:-1])
            names += [(epoch, int(window)) for window in np.flatnonzero(here)]
        return names

    def _part(self, name: _Name) -> _EpochPart:
        if name not in self._parts:
            part = self._repaired(self._dealt(name), name)
            while len(self._parts) >= _KEPT_PARTS:
                del self._parts[next(iter(self._parts))]
            self._parts[name] = part
        return self._parts[name]

    def _dealt(self, name: _Name) -> _EpochPart:
        """The samples of a part, dealt to its batches, whose first and last it may share with its neighbours."""
        B = self.batch_images
        rows, uses, edges = self._draw(name[0])
        window = name[1] if len(name) > 1 else 0
        begin, end = int(edges[window]), int(edges[window + 1])
        here = slice(begin - int(edges[0]), end - int(edges[0]))
        rows, uses = rows[here], uses[here]
        first, last = begin // B, (end - 1) // B
        starts = np.clip(np.arange(first, last + 2) * B, begin, end)
        line = self._line(rows, _VIDEO, _SAMPLE, *name)
        batch_of = _deal(self._videos[rows[line]], np.diff(starts), self._stream(_DEAL, *name))
        dealt = line[np.argsort(batch_of, kind="stable")]
        return _EpochPart(rows[dealt], uses[dealt], first, starts - starts[0])

    def _draw(self, epoch: int) -> tuple[Ints, Ints, Ints]:
        """Samples of an epoch and their uses, window after window, and the positions at which windows begin and end."""
        start = epoch * self.epoch_images
        if self._shards is None:
            return *self._drawn(epoch), np.array([start, start + self.epoch_images])
        if epoch not in self._draws:
            rows, uses = self._drawn(epoch)
            window_of = np.empty(self._shard_count, np.int64)
            for window in range(self._windows):
                window_of[self._window_shards(epoch, window)] = window
            windows = window_of[self._shards[rows]]
            sorted_rows = np.argsort(windows, kind="stable")
            counts = np.bincount(windows, minlength=self._windows)
            edges = start + np.concatenate([[0], np.cumsum(counts)])
            self._draws = {e: kept for e, kept in self._draws.items() if abs(e - epoch) <= 1}
            self._draws[epoch] = rows[sorted_rows], uses[sorted_rows], edges
        return self._draws[epoch]

    def _window_shards(self, epoch: int, window: int) -> Ints:
        """The shards of a window; windows are as equal as can be."""
        shuffled = np.argsort(_keys(self._stream(_WINDOW, epoch), self._shard_count), kind="stable")
        part: Ints = np.array_split(shuffled, self._windows)[window]
        return part

    def _drawn(self, epoch: int) -> tuple[Ints, Ints]:
        """Which samples an epoch has, and how often each was used before: a window of each corpus's endless stream."""
        rows, uses = [], []
        for corpus, (members, count) in enumerate(zip(self._members, self._counts.tolist(), strict=True)):
            position, end = epoch * count, (epoch + 1) * count
            while position < end:
                cycle, offset = divmod(position, len(members))
                taken = min(end - position, len(members) - offset)
                whole = members
                if taken < len(members):
                    whole = members[np.argsort(_keys(self._stream(_CYCLE, corpus, cycle), len(members)), kind="stable")]
                rows.append(whole[offset : offset + taken])
                uses.append(np.full(taken, cycle, np.int64))
                position += taken
        return np.concatenate(rows), np.concatenate(uses)

    def _repaired(self, dealt: _EpochPart, name: _Name) -> _EpochPart:
        """Swap samples out of the batch shared with the part before, where it holds frames of the same video already.

        The last batch is never touched, so that a part depends on the one before only through its plain deal.
        """
        earlier = self._parts_of(dealt.first_batch)
        earlier = earlier[: earlier.index(name)]
        if not earlier or len(dealt.starts) < 4:  # nothing is shared, or there is no batch to swap with
            return dealt
        before = [self._parts[n] if n in self._parts else self._dealt(n) for n in earlier]
        head = int(dealt.starts[1])
        partners = np.arange(head, int(dealt.starts[-2]))
        partners = partners[np.argsort(_keys(self._stream(_REPAIR, *name), len(partners)), kind="stable")].tolist()
        rows, uses = dealt.rows.copy(), dealt.uses.copy()
        shared = np.concatenate([part.of_batch(dealt.first_batch)[0] for part in before])
        taken = set(self._videos[shared].tolist())
        videos = self._videos[rows]
        for i in range(head):
            if int(videos[i]) not in taken:
                continue
            for j in partners:
                k = int(np.searchsorted(dealt.starts, j, side="right")) - 1
                elsewhere = videos[dealt.starts[k] : dealt.starts[k + 1]]
                if int(videos[j]) not in taken and videos[j] not in videos[:head] and videos[i] not in elsewhere:
                    for values in (rows, uses, videos):
                        values[[i, j]] = values[[j, i]]
                    break
        return _EpochPart(rows, uses, dealt.first_batch, dealt.starts)


def _deal(videos: Ints, capacities: Ints, stream: tuple[int, ...]) -> Ints:
    """Deal a line of samples to batches of the given capacities: the batch of every sample.

    `videos` [n] names the video of each sample in the line; equal ones are neighbours. Each round gives one sample to
    every batch; a batch that is smaller than the others sits out some rounds, evenly spaced. A video that goes on from
    one round into the next gets those batches first that hold the fewest of its samples.
    """
    rounds = int(capacities.max())
    result = np.empty(len(videos), np.int64)
    held = np.zeros(len(capacities), np.int64)  # samples that each batch holds of the video that ended the last round
    begin = 0
    for number in range(rounds):
        batches = np.flatnonzero((number + 1) * capacities // rounds > number * capacities // rounds)
        batches = batches[np.argsort(_keys((*stream, number), len(batches)), kind="stable")]
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


def _shares(weights: NDArray[np.float64], sizes: Ints) -> Ints:
    """How many samples of each corpus an epoch has: by the weights, in all as many as there are samples."""
    if len(weights) != len(sizes) or not (weights >= 0).all() or not weights.sum() > 0:
        raise UserError("data.weights: every corpus needs a weight of 0 or more, one of them above 0.")
    weights = np.where(sizes > 0, weights, 0.0)
    exact = weights / weights.sum() * sizes[weights > 0].sum()
    counts: Ints = np.floor(exact).astype(np.int64)
    left = round(float(exact.sum())) - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: a bijection that scatters neighbouring numbers."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))


def _keys(stream: tuple[int, ...], count: int) -> NDArray[np.uint64]:
    """Random 64-bit keys of a stream. Own arithmetic, because NumPy's generators may change between versions."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        state = np.zeros(1, np.uint64)
        for word in stream:
            state = _mix(state + golden + np.array([word % 2**64], np.uint64))
        return _mix(state + golden * np.arange(1, count + 1, dtype=np.uint64))
