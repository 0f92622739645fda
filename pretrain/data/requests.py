"""Which share of a step each rank computes: whole microgroups, part after part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import Sampler

from pretrain.data.keyed_random import Ints
from pretrain.data.order import DataOrder
from runtime.config import option
from runtime.errors import UserError


@dataclass
class BatchConfig:
    """How many images a step sees, and the microgroups that they come in."""

    images: int = option("Images per optimiser step, over all ranks.", 1024, low=1)
    microgroup_images: int = option(
        "Images of a microgroup: KoLeo, masks and drop path work within it. A rank takes one microgroup or several.",
        32,
        was="group_images",
        low=1,
    )
    accumulation_steps: int = option("Parts in which a step is computed, one after another.", 1, low=1)

    def check(self) -> None:
        if self.images % (self.microgroup_images * self.accumulation_steps):
            raise UserError(
                f"batch.images={self.images} does not divide into {self.accumulation_steps} parts of microgroups of "
                f"{self.microgroup_images}; change images, microgroup_images or accumulation_steps."
            )

    def microgroups_per_rank(self, world_size: int) -> int:
        """Microgroups that a rank computes at a time."""
        microgroups = self.images // self.microgroup_images // self.accumulation_steps
        if microgroups % world_size:
            raise UserError(
                f"{world_size} ranks can't share {microgroups} microgroups of batch.microgroup_images="
                f"{self.microgroup_images} evenly; use a number of ranks that divides them, or set a smaller "
                "batch.microgroup_images in a new run."
            )
        return microgroups // world_size

    def images_per_rank(self, world_size: int) -> int:
        """Images that a rank computes at a time."""
        return self.microgroup_images * self.microgroups_per_rank(world_size)


@dataclass(frozen=True)
class Request:
    """What a worker is asked for: one rank's share of one part of a step."""

    step: int
    microgroups: range  # numbers within the step
    rows: Ints
    uses: Ints
    positions: Ints


class Requests(Sampler[Request]):
    """The requests of one rank, from a step on."""

    def __init__(self, order: DataOrder, config: BatchConfig, rank: int, world_size: int, steps: range) -> None:
        self.order, self.config, self.steps, self.rank = order, config, steps, rank
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
