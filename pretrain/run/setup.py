"""What a run needs before its first step: its folder, its order, its starting weights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from backbone import load_backbone
from pretrain.config import PretrainConfig, changed_key
from pretrain.data.order import DataOrder
from pretrain.data.shards import ShardSet
from pretrain.objective.objective import Objective
from pretrain.parallel.build import build_objective, make_mesh
from pretrain.parallel.world import World
from pretrain.plan.memory import MemoryEstimate, estimate_memory
from runtime.config import load_config
from runtime.console import say
from runtime.errors import UserError
from runtime.files import make_directory
from runtime.locks import directory_lock

CONFIG_NAME = "config.yaml"
# How long the processes of a run that was just killed may hold on to its folder.
_LOCK_WAIT_SECONDS = 30.0


@contextmanager
def run_lock(run: Path) -> Iterator[None]:
    """Hold the run's folder; the leftovers of a run that was just killed get some time to let go of it."""
    make_directory(run)
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(directory_lock(run))
                break
            except UserError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        yield


def refuse_changed_config(config: PretrainConfig, run: Path, has_checkpoints: bool) -> None:
    """A run that has begun goes on with the settings it began with, or not at all."""
    stored = run / CONFIG_NAME
    if not has_checkpoints or not stored.exists():
        return
    key = changed_key(load_config(PretrainConfig, stored), config)
    if key is not None:
        raise UserError(
            f"the run {run} can't go on exactly with another {key}; "
            "restore the key, or choose another run.dir for a new run."
        )


def order_of(config: PretrainConfig, shards: ShardSet) -> DataOrder:
    weights = None
    if config.data.weights:
        unknown = sorted(set(config.data.weights) - set(shards.corpora))
        if unknown:
            raise UserError(
                f"data.weights: the shards hold no corpus '{unknown[0]}'; there are: {', '.join(shards.corpora)}."
            )
        weights = [float(config.data.weights.get(name, 0.0)) for name in shards.corpora]
    batch = config.batch
    return DataOrder(
        shards.corpus_of,
        shards.video_of,
        config.run.seed,
        batch.images,
        batch.group_images,
        weights,
        shards.shard_of,
        config.data.window_shards,
    )


def starting_objective(config: PretrainConfig, world: World, is_new: bool) -> Objective:
    """The objective of step 0. A run that goes on has its own weights and needs none to start from."""
    mesh = make_mesh(config.sharding, world.size, world.local_size, world.device.type)
    weights = None
    if config.init.weights is not None and is_new:
        loaded = load_backbone(config.init.weights)
        say(f"starting from {config.init.weights} ({loaded.architecture}, {loaded.source})")
        weights = loaded.model.state_dict()
    return build_objective(
        config.model.vit(),
        config.trained_objective,
        config.execution,
        config.sharding,
        mesh,
        world.device,
        config.run.seed,
        weights,
        config.init.new_registers,
    )


def memory_of(config: PretrainConfig, world_size: int, local_size: int, images: int | None = None) -> MemoryEstimate:
    """What a rank of such a world will need, with `images` at a time (None: its share of the batch)."""
    return estimate_memory(
        config.model.vit(),
        config.trained_objective,
        config.sharding,
        config.augment,
        config.masks,
        images or config.batch.group_images * config.batch.groups_per_rank(world_size),
        config.execution.checkpoint_blocks,
        world_size,
        local_size,
        accumulates=config.batch.accumulation_steps > 1,
    )
