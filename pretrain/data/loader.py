"""One rank's batches, read and augmented in worker processes ahead of time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from backbone import ViTConfig
from pretrain.data.augment import AugmentConfig, augment_jpeg
from pretrain.data.augment.cpu import Crops
from pretrain.data.batch import Batch, collate
from pretrain.data.masking import MaskConfig, masks_of_step
from pretrain.data.order import DataOrder, Ints
from pretrain.data.shard_cache import CacheConfig, FetchAhead
from pretrain.data.shards import ShardSet, UnreadableSampleError, open_shards
from pretrain.objective.drop_path import subsets_of_step
from pretrain.run.signals import ignore_stop_signals
from runtime.config import option, required
from runtime.errors import UserError

# Unreadable samples in a row, at one position, after which the shards are given up on.
_SUBSTITUTES = 10


@dataclass
class DataConfig:
    """Where the samples are and how they are read."""

    shards: str = required("Folder of WebDataset shards.")
    weights: dict[str, float] = option("Share of each corpus in what is seen, by name; empty: every sample once.", {})
    workers: int = option("Processes per rank that read and augment; 0: the training process itself.", 4)
    prefetch_batches: int = option("Batches that each worker prepares ahead.", 2)
    window_shards: int | None = option(
        "Shards that are visited at a time: the order is shuffled within windows of so many; null: within an epoch. "
        "A part of the order, so a run keeps it.",
        None,
    )
    cache: CacheConfig = option("Whole shards on a local disk, for slow or remote storage.", CacheConfig())

    def check(self) -> None:
        if self.workers < 0 or self.prefetch_batches < 1 or (self.window_shards or 1) < 1:
            raise UserError("data: workers must be at least 0, prefetch_batches and window_shards at least 1.")


@dataclass
class BatchConfig:
    """How many images a step sees, and how they are grouped."""

    images: int = option("Images per optimiser step, over all ranks.", 1024)
    group_images: int = option(
        "Images of a group: KoLeo, masks and drop path work within groups. A rank takes one group or several.", 32
    )
    accumulation_steps: int = option("Parts in which a step is computed, one after another.", 1)

    def check(self) -> None:
        if min(self.images, self.group_images, self.accumulation_steps) < 1:
            raise UserError("batch.images, group_images and accumulation_steps must be at least 1.")
        if self.images % (self.group_images * self.accumulation_steps):
            raise UserError(
                f"batch.images={self.images} does not divide into {self.accumulation_steps} parts of groups of "
                f"{self.group_images}; change images, group_images or accumulation_steps."
            )

    def groups_per_rank(self, world_size: int) -> int:
        """Groups that a rank computes at a time."""
        groups = self.images // self.group_images // self.accumulation_steps
        if groups % world_size:
            raise UserError(
                f"{world_size} ranks can't share {groups} groups of batch.group_images={self.group_images} evenly; "
                "use a number of ranks that divides them, or set a smaller batch.group_images in a new run."
            )
        return groups // world_size


@dataclass(frozen=True)
class Request:
    """What a worker is asked for: one rank's share of one part of a step."""

    step: int
    first_group: int  # number of its first group within the step
    rows: Ints
    uses: Ints
    positions: Ints


@dataclass
class LoadedBatch:
    step: int
    batch: Batch
    keys: list[str]
    unreadable: list[str]  # what is wrong with the samples that others stand in for

    def pin_memory(self) -> LoadedBatch:
        """For DataLoader: page-locked, so that the copy to the GPU runs beside the computing."""
        return replace(self, batch=self.batch.pin_memory())


def shards_of(config: DataConfig) -> ShardSet:
    """The shards of a run, cached where that is asked for. A cache that would be too small is refused."""
    shards = open_shards(config.shards, config.cache)
    if shards.cache is not None:
        windows = len(shards.shards) if config.window_shards is None else 2 * config.window_shards
        needed = int(np.sort(shards.shard_bytes)[-windows:].sum())
        if needed > shards.cache.budget_bytes:
            raise UserError(
                f"data.cache.budget_gb={config.cache.budget_gb:g} is too small: two windows of shards take up to "
                f"{needed / 1e9:.3g} GB (without data.window_shards: all shards); raise it, or choose a smaller "
                "data.window_shards in a new run."
            )
    return shards


class Requests(Sampler[Request]):
    """The requests of one rank, from a step on."""

    def __init__(self, order: DataOrder, config: BatchConfig, rank: int, world_size: int, steps: range) -> None:
        self.order, self.config, self.steps = order, config, steps
        self.rank, self.groups = rank, config.groups_per_rank(world_size)
        self.groups_per_part = self.groups * world_size

    def __iter__(self) -> Iterator[Request]:
        size = self.config.group_images
        for step in self.steps:
            ordered = self.order.batch(step)
            for part in range(self.config.accumulation_steps):
                first = part * self.groups_per_part + self.rank * self.groups
                here = slice(first * size, (first + self.groups) * size)
                yield Request(step, first, ordered.rows[here], ordered.uses[here], ordered.positions[here])

    def __len__(self) -> int:
        return len(self.steps) * self.config.accumulation_steps


class RankBatches(Dataset[LoadedBatch | UserError]):
    """Answers requests. Everything random is a function of the seed and of what the draw is for."""

    def __init__(
        self,
        shards: ShardSet,
        order: DataOrder,
        augment: AugmentConfig,
        masks: MaskConfig,
        vit: ViTConfig,
        group_images: int,
        seed: int,
    ) -> None:
        self.shards, self.order, self.augment, self.masks, self.vit = shards, order, augment, masks, vit
        self.group_images, self.seed = group_images, seed
        for name in ("global_px", "local_px"):
            if getattr(augment, name) % vit.patch_px:
                raise UserError(
                    f"augment.{name}={getattr(augment, name)} is not a multiple of the {vit.patch_px}-pixel patches; "
                    "change it."
                )

    def __getitem__(self, request: Request) -> LoadedBatch | UserError:
        try:
            return self._load(request)
        except UserError as error:
            return error  # raised by the training process: on its way out of a worker it would become a page of text

    def _load(self, request: Request) -> LoadedBatch:
        self.shards.let_go_of_removed()
        samples, keys, unreadable = [], [], []
        for row, use, position in zip(request.rows, request.uses, request.positions, strict=True):
            row = int(row)
            for attempt in range(_SUBSTITUTES):
                try:
                    samples.append(self._crops(row, int(use)))
                    keys.append(self.shards.key(row))
                    break
                except UnreadableSampleError as error:
                    unreadable.append(f"{self.shards.describe(row)}: {error}")
                    row = self.order.substitute(int(position), attempt)
            else:
                raise UserError(f"{_SUBSTITUTES} unreadable samples in a row ({unreadable[-1]}); check data.shards.")
        groups = len(request.rows) // self.group_images
        numbers = range(request.first_group, request.first_group + groups)
        batch = collate(samples, self._masks(request.step, numbers), self.augment.local_px)
        batch.groups, batch.subsets = groups, self._subsets(request.step, numbers)
        return LoadedBatch(request.step, batch, keys, unreadable)

    def _crops(self, row: int, use: int) -> Crops:
        data = self.shards.read(row)  # a missing shard is no matter of single samples: its error ends the run
        try:
            return augment_jpeg(data, self.augment, self.seed, use, self.shards.key(row))
        except UserError as error:
            raise UnreadableSampleError(str(error)) from error

    def _masks(self, step: int, groups: range) -> np.ndarray:
        """Masks of all groups, crop-major over the whole batch: [2B, N]."""
        side = self.augment.global_px // self.vit.patch_px
        of_group = [
            masks_of_step(self.masks, 2 * self.group_images, (side, side), self.seed, step, g) for g in groups
        ]  # each [2b, N]
        stacked = np.stack(of_group).reshape(len(groups), 2, self.group_images, -1)  # [G, 2, b, N]
        return stacked.transpose(1, 0, 2, 3).reshape(2 * len(groups) * self.group_images, -1)

    def _subsets(self, step: int, groups: range) -> list[Tensor] | None:
        vit, local_crops = self.vit, self.augment.local_crops
        if vit.drop_path == 0:
            return None
        return subsets_of_step(vit, vit.drop_path, self.group_images, local_crops, self.seed, step, groups)


class Loader:
    """Iterates over a rank's batches and measures how long training waits for them.

    With `pinned`, batches are copied to page-locked memory by a thread, as transfers to a GPU need it.
    """

    def __init__(self, batches: RankBatches, requests: Requests, config: DataConfig, pinned: bool = False) -> None:
        self.wait_seconds = 0.0
        self._order, self._shards, self._ahead = requests.order, batches.shards, None
        loader: DataLoader[LoadedBatch | UserError] = DataLoader(
            batches,
            batch_size=None,
            sampler=requests,
            num_workers=config.workers,
            prefetch_factor=config.prefetch_batches if config.workers else None,
            worker_init_fn=_prepare_worker if config.workers else None,
            pin_memory=pinned,
            # Forked workers share the columns of all samples with this process, and end when it is killed.
            multiprocessing_context="fork" if config.workers else None,
        )
        self._batches = iter(loader)
        if batches.shards.cache is not None and config.window_shards is not None:
            self._ahead = FetchAhead(batches.shards.cache)  # after the workers were forked: threads and forks don't mix
            self._wanted: list[int] = []
            self._fetch_ahead(requests.steps.start)

    def next(self) -> LoadedBatch:
        began = time.perf_counter()
        loaded: LoadedBatch | UserError = next(self._batches)
        self.wait_seconds += time.perf_counter() - began
        if isinstance(loaded, UserError):
            raise loaded
        self._fetch_ahead(loaded.step)
        return loaded

    def _fetch_ahead(self, step: int) -> None:
        """Ask for this window's shards and the next one's when a new window has begun."""
        if self._ahead is None:
            return
        wanted = self._order.shards_ahead(step).tolist()
        if wanted != self._wanted:
            self._wanted = wanted
            self._ahead.want([(self._shards.shards[s].name, int(self._shards.shard_bytes[s])) for s in wanted])

    def close(self) -> None:
        """End the workers."""
        if self._ahead is not None:
            self._ahead.close()
        del self._batches


def _prepare_worker(_: int) -> None:
    ignore_stop_signals()
    cv2.setNumThreads(0)  # one worker, one core
