"""`python -m launch rehearse CONFIG --nodes 4 --gpus 8`: the training on fake GPUs, and what it says of the plan."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import torch

from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError
from pretrain import REFERENCE_EFFICIENCY, Gpu, PretrainConfig, Requirements, requirements_of
from pretrain.rehearsal import HostCost, Rehearsal, RehearsalError, rehearse

EXIT_FAULT = 1
# Of the planned time of a step, what the host may need before the device has to wait for it.
HOST_SHARE = 0.3
# A planned step that is shorter than this is a toy's.
JUDGED_SECONDS = 0.02
_PARTS = 2  # of a batch whose gradients are accumulated: a first one, and one that adds to it


def run_rehearsal(config: PretrainConfig, nodes: int, gpus: int, gpu: Gpu, device: str) -> int:
    config, changed = rehearsed_config(config, nodes * gpus)
    kind = f"{gpu.name} without content" if device == "cuda" else "CPUs without content"
    say(f"rehearsing {nodes} × {gpus} {kind}, torch {torch.__version__}{changed}")
    try:
        done = rehearse(config, nodes, gpus, torch.device(device, 0) if device == "cuda" else torch.device(device))
    except RehearsalError as fault:
        say(f"fault: {fault.what}")
        say(f"  at {fault.place}")
        return EXIT_FAULT
    ranks = ", ".join(str(rank.rank) for rank in done.ranks)
    plural = "s" if len(done.ranks) > 1 else ""
    say(f"no fault: rank{plural} {ranks} of {done.size}, {done.first.operations:,} operations a step")
    print_collectives(done)
    if done.first.cost is not None:
        print_cost(done.first.cost, requirements_of(config, done.size, done.local_size), gpu)
    return 0


def rehearsed_config(config: PretrainConfig, ranks: int) -> tuple[PretrainConfig, str]:
    """The config, and what was changed: a batch that so many ranks can't share grows, one of many parts has two."""
    try:
        config.batch.images_per_rank(ranks)
    except UserError:
        images = config.batch.microgroup_images * ranks * config.batch.accumulation_steps
        batch = replace(config.batch, images=images)
        said = f"; {images:,} images a step instead of {config.batch.images:,}, which {ranks} ranks can't share"
        config = replace(config, batch=batch)
    else:
        said = ""
    parts = config.batch.accumulation_steps
    if parts > _PARTS:  # further ones are the same again
        batch = replace(config.batch, images=config.batch.images // parts * _PARTS, accumulation_steps=_PARTS)
        return replace(config, batch=batch), f"{said}; {_PARTS} of the {parts} parts of a batch"
    return config, said


def print_collectives(done: Rehearsal) -> None:
    """What a rank sends in a step, by kind and by the size of the group."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for collective in done.first.step_collectives:
        found[collective.kind, collective.ranks].append(collective.bytes)
    rows = [
        [f"{kind} over {ranks}", f"{len(sizes)}", f"{sum(sizes) / 1e6:,.1f} MB"]
        for (kind, ranks), sizes in sorted(found.items())
    ]
    if rows:
        table("collectives of a step, each rank", ["", "number", "tensors"], rows)


def print_cost(cost: HostCost, needs: Requirements, gpu: Gpu) -> None:
    images = needs.step_images / needs.ranks
    planned = images * needs.flops_per_image / (gpu.tflops * 1e12 * REFERENCE_EFFICIENCY)
    share = cost.seconds / planned
    say(f"memory: {cost.peak_bytes / 1e9:.2f} GB by torch's allocator, {needs.memory.peak / 1e9:.2f} GB planned")
    say(f"host: {cost.seconds:.2f} s of a core for {cost.kernels:,} kernels; planned for the GPU: {planned:.2f} s")
    if cost.peak_bytes > gpu.memory_gb * 1e9:
        warn(f"it does not fit: {gpu.name} has {gpu.memory_gb:.0f} GB; 'launch plan' says what to change.")
    if share > HOST_SHARE and planned > JUDGED_SECONDS:
        warn(
            f"the host needs {share:.0%} of the planned step; a slow core starves the GPU (docs/explanation/scale.md)."
        )
