"""What a run says before its first step: the world, the schedule, the memory."""

from __future__ import annotations

from panendofm.runtime.console import say, table, warn
from pretrain.config import PretrainConfig
from pretrain.data.order.order import DataOrder
from pretrain.data.storage.shards import ShardSet
from pretrain.optimizer.warm_start import WarmSchedule
from pretrain.parallel.world import World
from pretrain.plan.requirements import requirements_of
from pretrain.schedules import ResolvedSchedule


def announce(
    config: PretrainConfig,
    world: World,
    shards: ShardSet,
    order: DataOrder,
    recipe: ResolvedSchedule,
    warm_start: WarmSchedule | None,
    step: int,
    total_steps: int,
) -> None:
    epochs = total_steps * config.batch.images / order.epoch_images
    peak = max(recipe.at(s).lr for s in (recipe.warmup_steps, total_steps) if s <= total_steps)
    say(
        f"{world.size} ranks on {world.device.type}, sharding {config.sharding.mode}; "
        f"{len(shards):,} samples of {len(shards.corpora)} corpora in {len(shards.shards)} shards"
    )
    say(
        f"{total_steps:,} steps of {config.batch.images:,} images = {epochs:.2f} data epochs; learning rate up to "
        f"{peak:.3g}, at the end {recipe.at(total_steps).lr:.3g}"
    )
    memory = requirements_of(config, world.size, world.local_size).memory
    table("memory per rank, estimated", ["part", "size"], memory.rows())
    head, *rows = recipe.table()
    table("schedule", list(head), [list(row) for row in rows])
    if warm_start is not None:
        say(warm_start.describe())
        if config.monitor.mode == "none" and world.is_first:
            warn("monitor.mode is none: nobody will see whether training does harm to the starting weights.")
    if step:
        say(f"resuming from step {step:,}")
