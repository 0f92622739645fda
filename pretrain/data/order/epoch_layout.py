"""An epoch, or one window of it, laid out: which of its samples each of its batches holds.

The samples stand in one line, sorted by corpus and, in random order, by video; within a video in random order. They are
dealt like cards to the batches, one card to each batch per round. So every batch gets its fair share of every corpus,
and every video is spread as widely as possible.

The batches take their turns in a random order that is the same for a block of rounds: then two cards of one batch are
at least as far apart in the line as there are full batches. At the border of two blocks, whose orders differ, a video
that goes on gets those batches first that hold the fewest of its samples.

Nothing is laid out in advance but these orders: a batch is computed when it is asked for, from its places in the line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pretrain.data.order.epoch_samples import Samples
from pretrain.data.order.keyed_random import Ints, Words, permuted, shuffled, words_of

# Orders of turns per part; the more there are, the less often two videos meet in more than one batch.
_BLOCKS = 64


class Members(NamedTuple):
    """Samples of a batch."""

    places: Ints  # [n]
    uses: Ints  # [n]
    videos: Ints  # [n]
    corpora: Ints  # [n]


class EpochPart:
    """Samples dealt to the batches `first_batch`, …; of the first and the last a part may belong to the neighbors.

    `corpora` [R]: of each run. `edges` [batches + 1]: positions in training at which the batches begin and end, cut to
    this part. `stream` names its random numbers.
    """

    def __init__(self, samples: Samples, corpora: Ints, first_batch: int, edges: Ints, stream: tuple[int, ...]) -> None:
        self._samples = samples
        self.first_batch = first_batch
        self.stream = stream
        self.batches = len(edges) - 1
        counts = samples.counts
        videos = np.flatnonzero(counts)  # a run is numbered as its video
        # The line: runs by corpus, then at random. From here on runs are numbered by their places in it.
        self.videos = videos[np.lexsort((words_of((*stream, 0), videos), corpora[videos]))]
        self.corpora = corpora[self.videos]
        self.sizes = counts[self.videos]
        self.line_starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._swapped: tuple[Ints, Ints] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._prepare_rounds(np.diff(edges))
        self._prepare_turns()

    def _prepare_rounds(self, capacities: Ints) -> None:
        """Rounds have a card for every batch; a batch that is smaller than the others sits out some, evenly spaced."""
        rounds = int(capacities.max())
        number = np.arange(rounds)
        self._ends = sorted({0, self.batches - 1})  # the only batches that may be smaller
        self._plays = {b: (number + 1) * capacities[b] // rounds > number * capacities[b] // rounds for b in self._ends}
        lengths = np.full(rounds, self.batches)
        for plays in self._plays.values():
            lengths -= ~plays
        self.round_starts = np.concatenate([[0], np.cumsum(lengths)])
        self._rounds_per_block = -(-rounds // min(rounds, _BLOCKS))

    def _prepare_turns(self) -> None:
        """The order of the batches in each block, and each batch's place in it."""
        rounds, per_block = len(self.round_starts) - 1, self._rounds_per_block
        blocks = -(-rounds // per_block)
        self._turns = np.empty((blocks, self.batches), np.int32)
        self._turn_of = np.empty((blocks, self.batches), np.int32)
        held_run, held = -1, np.zeros(self.batches, np.int64)
        for block in range(blocks):
            turns = shuffled((*self.stream, 1, block), self.batches)
            begin = int(self.round_starts[block * per_block])
            run = int(np.searchsorted(self.line_starts, begin, side="right")) - 1
            run_begin, run_end = int(self.line_starts[run]), int(self.line_starts[run + 1])
            if run_begin < begin:  # its video goes on from the block before
                since = int(self.round_starts[(block - 1) * per_block])
                held = held if held_run == run else np.zeros_like(held)
                held = held + np.bincount(
                    self.batch_of(np.arange(max(run_begin, since), begin)), minlength=self.batches
                )
                held_run = run
                turns = self._fewest_first(turns, held, run_end - begin, block * per_block)
            self._turns[block] = turns
            self._turn_of[block, turns] = np.arange(self.batches)

    def _fewest_first(self, turns: Ints, held: Ints, wanted: int, round_number: int) -> Ints:
        """Those that hold the fewest take the first turns, as many as are wanted; the others keep their order."""
        sits_out = [b for b, plays in self._plays.items() if not plays[round_number]]
        playing = turns[~np.isin(turns, sits_out)]
        first = playing[np.argsort(held[playing], kind="stable")[:wanted]]
        is_first = np.zeros(self.batches, bool)
        is_first[first] = True
        return np.concatenate([first, turns[~is_first[turns]]])

    def positions_of(self, batch: int) -> Ints:
        """The places in the line of a batch's samples; batches are counted from 0."""
        number = np.arange(len(self.round_starts) - 1)
        if batch in self._plays:
            number = number[self._plays[batch]]
        block = number // self._rounds_per_block
        turn = self._turn_of[block, batch].astype(np.int64)
        before = turn.copy()
        for other, plays in self._plays.items():
            if other != batch:
                before -= ~plays[number] & (self._turn_of[block, other] < turn)
        positions: Ints = self.round_starts[number] + before
        return positions

    def batch_of(self, positions: Ints) -> Ints:
        """The batch that each place in the line was dealt to."""
        number = np.searchsorted(self.round_starts, positions, side="right") - 1
        block, turn = number // self._rounds_per_block, positions - self.round_starts[number]
        absent = [
            np.where(plays[number], self.batches, self._turn_of[block, other]) for other, plays in self._plays.items()
        ]
        for other in np.sort(np.stack(absent), axis=0):  # the turns of those that sit out, in their order
            turn = turn + (turn >= other)
        batches: Ints = self._turns[block, turn].astype(np.int64)
        return batches

    def swap(self, ours: Ints, theirs: Ints) -> None:
        """Exchange the samples at some places in the line with those at others."""
        at, other = np.concatenate([ours, theirs]), np.concatenate([theirs, ours])
        order = np.argsort(at)
        self._swapped = at[order], other[order]

    def members(self, step: int) -> Members:
        """The samples of a step's batch that belong to this part."""
        positions = self.positions_of(step - self.first_batch)
        at, other = self._swapped
        if len(at):
            index = np.minimum(np.searchsorted(at, positions), len(at) - 1)
            positions = np.where(at[index] == positions, other[index], positions)
        return self._members_at(positions)

    def runs_at(self, positions: Ints) -> Ints:
        """The run of each place in the line."""
        return np.searchsorted(self.line_starts, positions, side="right") - 1

    def positions_of_runs(self, runs: Ints) -> Ints:
        """The places in the line of some runs, one after another."""
        sizes = self.sizes[runs]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.line_starts[runs] - before, sizes) + np.arange(int(sizes.sum()))

    def _members_at(self, positions: Ints) -> Members:
        run = self.runs_at(positions)
        keys: Words = words_of((*self.stream, 2), self.videos[run])
        numbers = permuted(positions - self.line_starts[run], self.sizes[run], keys)
        places, uses = self._samples.find(self.videos[run], numbers)
        return Members(places, uses, self.videos[run], self.corpora[run])
