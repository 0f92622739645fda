"""One rank's batches, read and augmented in worker processes ahead of time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from panendofm.runtime.errors import UserError
from pretrain.data.augment import AugmentConfig, AugmentParams, prepare_jpeg
from pretrain.data.augment.cpu import Crops
from pretrain.data.augment.photometric import plan_of
from pretrain.data.batch import Batch, collate
from pretrain.data.config import BatchConfig, DataConfig, MaskConfig
from pretrain.data.masking import masks_of_batch
from pretrain.data.order.batch_sampler import BatchSampler, Request
from pretrain.data.order.keyed_random import Ints
from pretrain.data.order.mapped_weights import mapped_weights
from pretrain.data.order.order import DataOrder
from pretrain.data.order.video_pairs import VideoPairs
from pretrain.data.storage.shard_cache import FetchAhead
from pretrain.data.storage.shards import ShardSet, UnreadableSampleError, open_shards
from pretrain.randomness import numpy_generator
from pretrain.signals import ignore_stop_signals

# Unreadable samples in a row, at one position, after which the shards are given up on.
_SUBSTITUTES = 10


@dataclass
class LoadedBatch:
    """One rank's share of one part of a step, read and augmented."""

    step: int
    microgroups: range  # numbers within the step
    batch: Batch
    keys: list[str]
    unreadable: list[str]  # what is wrong with the samples that others stand in for

    def pin_memory(self) -> LoadedBatch:
        """For DataLoader: page-locked, so that the copy to the GPU runs beside the computing."""
        return replace(self, batch=self.batch.pin_memory())


def shards_of(config: DataConfig) -> ShardSet:
    """The shards of a run, cached where that is asked for. A cache that would be too small is refused."""
    shards = open_shards(config.shards, config.cache, config.index)
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


def order_of(data: DataConfig, batch: BatchConfig, seed: int, shards: ShardSet) -> DataOrder:
    """The order in which a run sees the samples of its shards."""
    weights = sample_weights = None
    if isinstance(data.sampling_weights, str):
        sample_weights = mapped_weights(Path(data.sampling_weights), shards)
    elif data.sampling_weights:
        unknown = sorted(set(data.sampling_weights) - set(shards.corpora))
        if unknown:
            raise UserError(
                f"data.sampling_weights: the shards hold no corpus '{unknown[0]}'; there are: "
                f"{', '.join(shards.corpora)}."
            )
        weights = [float(data.sampling_weights.get(name, 0.0)) for name in shards.corpora]
    return DataOrder(
        shards.runs,
        seed,
        batch.images,
        batch.microgroup_images,
        weights,
        shards.shard_of,
        data.window_shards,
        sample_weights,
    )


class RankBatches(Dataset[LoadedBatch | UserError]):
    """Answers requests. Everything random is a function of the seed and of what the draw is for."""

    def __init__(
        self,
        shards: ShardSet,
        order: DataOrder,
        augment: AugmentConfig,
        masks: MaskConfig,
        patch_px: int,
        microgroup_images: int,
        seed: int,
        sampled_classes: int | None = None,
        pairs: VideoPairs | None = None,
    ) -> None:
        self.shards = shards
        self.order = order
        self.augment = augment
        self.masks = masks
        self.microgroup_images = microgroup_images
        self.seed = seed
        self.pairs = pairs
        self.sampled_classes = sampled_classes  # of instance classification; None: all images, or another objective
        self.grid = augment.global_px // patch_px  # patches along a side of a global crop
        for name in ("global_px", "local_px"):
            if getattr(augment, name) % patch_px:
                raise UserError(
                    f"augment.{name}={getattr(augment, name)} is not a multiple of the {patch_px}-pixel patches; "
                    "change it."
                )

    def __getitem__(self, request: Request) -> LoadedBatch | UserError:
        try:
            return self._load(request)
        except UserError as error:
            return error  # raised by the training process: on its way out of a worker it would become a page of text

    def _load(self, request: Request) -> LoadedBatch:
        self.shards.close_removed()
        samples, params, rows, unreadable = [], [], [], []
        for row, use, position in zip(request.rows, request.uses, request.positions, strict=True):
            row = int(row)
            for attempt in range(_SUBSTITUTES):
                try:
                    crops, drawn = self._crops(row, int(use))
                    samples.append(crops)
                    params.append(drawn)
                    rows.append(row)
                    break
                except UnreadableSampleError as error:
                    unreadable.append(f"{self.shards.describe(row)}: {error}")
                    row = self.order.substitute(int(position), attempt)
            else:
                raise UserError(f"{_SUBSTITUTES} unreadable samples in a row ({unreadable[-1]}); check data.shards.")
        masks = masks_of_batch(
            self.masks, self.microgroup_images, (self.grid, self.grid), self.seed, request.step, request.microgroups
        )  # [2B, N]
        batch = collate(samples, masks, self.augment.local_px)
        batch.microgroups = len(request.microgroups)
        batch.rows = torch.tensor(rows)
        if self.sampled_classes is not None:
            batch.classes = torch.from_numpy(self._classes(request.step, rows))
        if self.augment.where == "gpu":
            kinds = slice(0, 2), slice(2, None)  # global crops, local crops
            batch.photometric = tuple(plan_of(params, crops, self.augment) for crops in kinds)
        keys = [self.shards.key(row) for row in rows]
        return LoadedBatch(request.step, request.microgroups, batch, keys, unreadable)

    def _classes(self, step: int, rows: list[int]) -> Ints:
        """The images that take part in a step's softmax: those of its whole batch, and others drawn for all ranks."""
        assert self.sampled_classes is not None
        wanted = np.union1d(self.order.batch(step).rows, rows)  # a substitute is this rank's alone
        random = numpy_generator(self.seed, "classes", step)
        return np.union1d(wanted, random.integers(len(self.shards), size=self.sampled_classes))

    def _crops(self, row: int, use: int) -> tuple[Crops, AugmentParams]:
        """A sample's crops, as far as they are made here, and what was drawn for them."""
        crops, params = self._crops_of(row, use)
        if self.pairs is None:
            return crops, params
        others, other_params = self._crops_of(self.pairs.partner(row, use), use)
        (first, _), local_crops = crops
        (_, second), _ = others
        return ([first, second], local_crops), params.with_crop(1, other_params)

    def _crops_of(self, row: int, use: int) -> tuple[Crops, AugmentParams]:
        data = self.shards.read(row)  # a missing shard is no matter of single samples: its error ends the run
        try:
            return prepare_jpeg(data, self.augment, self.seed, use, self.shards.key(row))
        except UserError as error:
            raise UnreadableSampleError(str(error)) from error


class Loader:
    """Iterates over a rank's batches and measures how long training waits for them.

    With `pinned`, batches are copied to page-locked memory by a thread, as transfers to a GPU need it.
    """

    def __init__(self, batches: RankBatches, sampler: BatchSampler, config: DataConfig, pinned: bool = False) -> None:
        self.wait_seconds = 0.0
        self._order = sampler.order
        self._shards = batches.shards
        self._ahead = None
        loader: DataLoader[LoadedBatch | UserError] = DataLoader(
            batches,
            batch_size=None,
            sampler=sampler,
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
            self._fetch_ahead(sampler.steps.start)

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
