"""Ways to lay a training over a cluster, and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from pretrain.config import PretrainConfig
from pretrain.objective.objective import Objective
from pretrain.plan.communication import traffic_of
from pretrain.plan.hardware import REFERENCE_EFFICIENCY, Gpu, Network
from pretrain.plan.memory import memory_of, memory_with_context
from pretrain.plan.rows import rows_of

_MODES: tuple[Literal["fsdp", "hsdp", "replicate"], ...] = ("replicate", "hsdp", "fsdp")
_RECOMPUTED_WORK = 1.196  # counted operation by operation at ViT-L (docs/how-to/doctor.md): the student's blocks again
_MOST_PARTS = 16


@dataclass(frozen=True)
class Choice:
    """One way, with what a step then takes. Communication runs beside computing: the longest counts."""

    mode: str
    checkpoint_blocks: bool
    accumulation_steps: int
    memory_bytes: float  # on one GPU, with what must stay free
    compute_seconds: float
    within_seconds: float  # of collectives within nodes
    between_seconds: float  # of those that reach over nodes
    fits: bool

    @property
    def step_seconds(self) -> float:
        return max(self.compute_seconds, self.within_seconds, self.between_seconds)

    @property
    def bottleneck(self) -> str:
        times = {
            "computing": self.compute_seconds,
            "links within a node": self.within_seconds,
            "the network": self.between_seconds,
        }
        return max(times, key=lambda name: times[name])

    def words(self) -> str:
        """The keys that ask for it."""
        blocks = str(self.checkpoint_blocks).lower()
        return (
            f"sharding.mode={self.mode} execution.checkpoint_blocks={blocks} "
            f"batch.accumulation_steps={self.accumulation_steps}"
        )


def choice_of(
    config: PretrainConfig, objective: Objective, gpu: Gpu, network: Network, nodes: int, local: int, flops: float
) -> Choice:
    """What the config itself means on a cluster; `flops` are those of one image."""
    ranks = nodes * local
    memory = memory_of(config, objective, rows_of(config, config.batch.images_per_rank(ranks)), ranks, local)
    needed = memory_with_context(memory)
    compute = config.batch.images / ranks * flops / (gpu.tflops * 1e12 * REFERENCE_EFFICIENCY)
    if config.execution.checkpoint_blocks:
        compute *= _RECOMPUTED_WORK
    within, between = 0.0, 0.0
    for traffic in traffic_of(config, objective, ranks, local):
        if traffic.nodes == 1:
            within += traffic.seconds(network)
        else:
            between += traffic.seconds(network)
    return Choice(
        config.sharding.mode,
        config.execution.checkpoint_blocks,
        config.batch.accumulation_steps,
        needed,
        compute,
        within,
        between,
        needed <= gpu.memory_gb * 1e9,
    )


def choices_of(
    config: PretrainConfig, objective: Objective, gpu: Gpu, network: Network, nodes: int, local: int, flops: float
) -> list[Choice]:
    """All ways that share the batch evenly, the quickest that fits first; of equally quick ones the simplest."""
    found = []
    for mode, recomputed, parts in product(_MODES, (False, True), range(1, _MOST_PARTS + 1)):
        if config.batch.images % (parts * nodes * local * config.batch.microgroup_images):
            continue
        variant = replace(
            config,
            sharding=replace(config.sharding, mode=mode),
            execution=replace(config.execution, checkpoint_blocks=recomputed),
            batch=replace(config.batch, accumulation_steps=parts),
        )
        found.append(choice_of(variant, objective, gpu, network, nodes, local, flops))
    order = {mode: number for number, mode in enumerate(("hsdp", "fsdp", "replicate"))}
    return sorted(
        found, key=lambda c: (not c.fits, round(c.step_seconds, 3), c.accumulation_steps, order[c.mode], c.memory_bytes)
    )
