"""A batch that two epochs share: frames of videos that the earlier one has put there already are exchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pretrain.data.order.epoch_layout import EpochPart
from pretrain.data.order.keyed_random import Ints, shuffled

Bools = NDArray[np.bool_]

# Samples that are looked at for an exchange: at a time, and at most. A corpus without a fitting one among a million is
# taken as one that does not allow it.
_CHUNK, _MOST = 1 << 16, 1 << 20


@dataclass
class _Pool:
    """Samples of videos that are not in the shared batch."""

    positions: Ints  # [n] places in the line
    runs: Ints  # [n] numbers in the line
    batches: Ints  # [n]
    free: Bools  # [n] false once their video is in the shared batch

    def joined(self, more: _Pool) -> _Pool:
        """Both, less what is no longer free."""
        columns = ("positions", "runs", "batches", "free")
        return _Pool(*(np.concatenate([getattr(self, c)[self.free], getattr(more, c)]) for c in columns))


def separate_videos(part: EpochPart, earlier_videos: Ints) -> None:
    """Exchange samples of the part's first batch whose videos are among those that the batch holds already.

    Their partners come from whole batches of the part that hold no frame of the video yet, and from videos that the
    shared batch does not hold; those of the same corpus first. The last batch is never touched, so that a part depends
    on the one before only through its plain deal. Where the corpus has no such partner, a sample stays.
    """
    if part.batches < 3:  # there is no batch to exchange with
        return
    own = part.positions_of(0)
    own_runs = part.runs_at(own)
    shared = np.zeros(int(max(part.videos.max(), earlier_videos.max())) + 1, bool)
    shared[earlier_videos] = True
    conflicts = np.flatnonzero(shared[part.videos[own_runs]])
    shared[part.videos[own_runs]] = True
    chunks = _chunks(part, shared)
    pool = next(chunks, None)
    if pool is None:  # the batch holds every video there is
        return
    swaps: list[tuple[int, int]] = []
    occupied: dict[int, Bools] = {}  # by run: the batches that its frames must not go to
    for position, run in zip(own[conflicts].tolist(), own_runs[conflicts].tolist(), strict=True):
        if run not in occupied:
            occupied[run] = _occupied(part, run)
        if occupied[run].all():
            continue
        partner = _partner(part, pool, occupied[run], run)
        while partner is None and (more := next(chunks, None)) is not None:
            pool = pool.joined(more)
            partner = _partner(part, pool, occupied[run], run)
        if partner is not None:
            swaps.append((position, int(pool.positions[partner])))
            occupied[run][pool.batches[partner]] = True
            pool.free &= pool.runs != pool.runs[partner]
    if swaps:
        ours, theirs = np.array(swaps, np.int64).T
        part.swap(ours, theirs)


def _occupied(part: EpochPart, run: int) -> Bools:
    """Batches that a frame of a run must not go to: those that hold one, and both ends."""
    occupied = np.zeros(part.batches, bool)
    occupied[[0, -1]] = True
    occupied[part.batch_of(part.positions_of_runs(np.array([run])))] = True
    return occupied


def _chunks(part: EpochPart, shared: Bools) -> Iterator[_Pool]:
    """The samples of all videos that the shared batch does not hold, in a random order of videos."""
    runs = shuffled((*part.stream, 3), len(part.videos))
    runs = runs[~shared[part.videos[runs]]]
    ends = np.concatenate([[0], np.cumsum(part.sizes[runs])])
    begin = 0
    while begin < len(runs) and ends[begin] < _MOST:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + _CHUNK, side="right")) - 1)
        positions = part.positions_of_runs(runs[begin:end])
        of_run = np.repeat(runs[begin:end], part.sizes[runs[begin:end]])
        yield _Pool(positions, of_run, part.batch_of(positions), np.ones(len(positions), bool))
        begin = end


def _partner(part: EpochPart, pool: _Pool, occupied: Bools, run: int) -> int | None:
    """The first free sample whose batch may take a frame of the run; of the same corpus, if there is one."""
    fits = pool.free & ~occupied[pool.batches]
    same = fits & (part.corpora[pool.runs] == part.corpora[run])
    if same.any():
        return int(same.argmax())
    return int(fits.argmax()) if fits.any() else None
