"""The rehearsal of a world: some of its ranks one after the other, and whether they would meet in every collective."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import zip_longest
from multiprocessing import get_context

import torch

from pretrain.config import PretrainConfig
from pretrain.distill_teacher import planned_teacher_form
from pretrain.rehearsal.fake_run import RankRehearsal, rehearse_rank
from pretrain.rehearsal.watcher import RehearsalError


@dataclass(frozen=True)
class Rehearsal:
    size: int
    local_size: int
    ranks: list[RankRehearsal]  # those that were rehearsed, the first rank first

    @property
    def first(self) -> RankRehearsal:
        return self.ranks[0]


def rehearsed_ranks(size: int) -> list[int]:
    """The first, whose code differs most from the others'; one beside it, and the last, whose shards are shortest."""
    return sorted({0, min(1, size - 1), size - 1})


def rehearse(
    config: PretrainConfig, nodes: int, ranks_per_node: int, device: torch.device, measured: bool = True
) -> Rehearsal:
    """A `RehearsalError` says what would go wrong, and where."""
    size = nodes * ranks_per_node
    config.batch.images_per_rank(size)
    planned_teacher_form(config)  # says once what is taken for a teacher that is not there
    ranks = rehearsed_ranks(size)
    tasks = [(config, rank, size, ranks_per_node, device, measured and rank == 0) for rank in ranks]
    # A process for each: torch keeps what it knows of a world. Forked, so that it is imported once.
    with get_context("fork").Pool(min(len(ranks), os.cpu_count() or 1), maxtasksperchild=1) as pool:
        done = pool.starmap(_rank, tasks, chunksize=1)
    for other in done[1:]:
        refuse_different_collectives(done[0], other)
    return Rehearsal(size, ranks_per_node, done)


def _rank(
    config: PretrainConfig, rank: int, size: int, local_size: int, device: torch.device, measured: bool
) -> RankRehearsal:
    try:
        return rehearse_rank(config, rank, size, local_size, device, measured)
    except RehearsalError as fault:
        if not fault.is_in_backward:
            raise
    return rehearse_rank(config, rank, size, local_size, device, traced=True)


def refuse_different_collectives(one: RankRehearsal, other: RankRehearsal) -> None:
    """Ranks that enter different collectives wait for one another until their time is up."""
    for number, (ours, theirs) in enumerate(zip_longest(one.collectives, other.collectives)):
        if ours is not None and theirs is not None and ours.matches(theirs):
            continue
        # Who does more is told apart from who does it later.
        longer, shorter = (one, other) if len(one.collectives) >= len(other.collectives) else (other, one)
        odd = longer.collectives[number]
        instead = shorter.collectives[number] if number < len(shorter.collectives) else None
        meanwhile = f"enters {instead} at {instead.place}" if instead is not None else "enters none"
        what = f"rank {longer.rank} enters {odd}, rank {shorter.rank} {meanwhile}: they would hang"
        raise RehearsalError(what, odd.place)
