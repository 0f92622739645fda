"""Which share of a step each rank computes: whole microgroups, part after part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import Sampler

from pretrain.data.config import BatchConfig
from pretrain.data.order.keyed_random import Ints
from pretrain.data.order.order import DataOrder


@dataclass(frozen=True)
class Request:
    """What a worker is asked for: one rank's share of one part of a step."""

    step: int
    microgroups: range  # numbers within the step
    rows: Ints
    uses: Ints
    positions: Ints


class BatchSampler(Sampler[Request]):
    """The requests of one rank, from a step on."""

    def __init__(self, order: DataOrder, config: BatchConfig, rank: int, world_size: int, steps: range) -> None:
        self.order = order
        self.config = config
        self.steps = steps
        self.rank = rank
        self.microgroups = config.microgroups_per_rank(world_size)
        self.microgroups_per_part = self.microgroups * world_size

    def __iter__(self) -> Iterator[Request]:
        size = self.config.microgroup_images
        for step in self.steps:
            ordered = self.order.batch(step)
            for part in range(self.config.accumulation_steps):
                first = part * self.microgroups_per_part + self.rank * self.microgroups
                microgroups = range(first, first + self.microgroups)
                share = slice(microgroups.start * size, microgroups.stop * size)
                yield Request(step, microgroups, ordered.rows[share], ordered.uses[share], ordered.positions[share])

    def __len__(self) -> int:
        return len(self.steps) * self.config.accumulation_steps
