"""The processes together: one folder, one answer from every collective, and the numbers of a single process."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launch.doctor.file_system import NO_FLOCK_FOUND, NO_FLOCK_REMEDY, held_elsewhere
from launch.doctor.rows import Row, judged
from panendofm.runtime.files import make_directory, write_text
from panendofm.runtime.locks import directory_lock, has_flock
from pretrain import World
from pretrain.selftest import RunMetrics, differences, sharding_config, train

# How parameters lie over ranks, their type, and over how many ranks one copy is sharded.
Mode = tuple[str, str, int | None]
# The row of the group over which parameters and gradients travel.
PARAMETERS_TRAVEL = "collectives"
_SEEN_SECONDS, _LATE_SECONDS = 60.0, 5.0
_VALUES = 1 << 22  # 16 MB of float32: large enough that starting does not count
_ROUNDS = 4
# Losses and weights after four steps, relative; rounding differs with the order of the sums. bfloat16 by its 8 bits.
_TOLERANCES = {"float32": (1e-4, 1e-2), "bfloat16": (0.1, math.inf)}
_WRONG_RANKS = "the processes do not compute what one computes: do not train here, and report it with doctor.json"


def check_shared_folder(world: World, folder: Path) -> Iterator[Row]:
    """What the first rank writes, all others must see; what it locks, no other node may have."""
    token = folder / f"seen-{os.urandom(4).hex()}" if world.is_first else None
    token = world.broadcast(token)
    began = time.perf_counter()
    if world.is_first:
        write_text(token, "seen\n")
    deadline = began + _SEEN_SECONDS
    while not token.is_file() and time.perf_counter() < deadline:
        time.sleep(0.05)
    seen = world.gather(time.perf_counter() - began if token.is_file() else None)
    blind = [rank for rank, seconds in enumerate(seen) if seconds is None]
    slowest = max((seconds for seconds in seen if seconds is not None), default=0.0)
    if blind:
        found = f"ranks {', '.join(map(str, blind))} do not see the first one's files after {_SEEN_SECONDS:.0f} s"
        yield Row("shared folder", "fail", found, "put run.dir on a file system that all nodes share")
        return
    remedy = "expect ranks to wait for one another's files; a file system without long caches is better (NFS: actimeo)"
    found = f"a new file is seen by {ranks_of(world)} within {slowest:.1f} s"
    yield judged("shared folder", slowest <= _LATE_SECONDS, found, remedy, "warn", seconds=round(slowest, 2))
    yield _locks_over_nodes(world, folder)


def _locks_over_nodes(world: World, folder: Path) -> Row:
    nodes = world.gather(os.environ.get("SLURM_NODEID") or socket.gethostname())
    with ExitStack() as stack:
        if world.is_first:
            stack.enter_context(directory_lock(folder / "locked"))
        world.broadcast(None)
        refused = world.gather(world.is_first or held_elsewhere(folder / "locked"))
    count = len(set(nodes))
    if not has_flock(folder):
        return Row("locks over nodes", "warn", NO_FLOCK_FOUND, NO_FLOCK_REMEDY)
    found = f"one holder on {count} node{'s' if count > 1 else ''}"
    remedy = "locks hold on one node only here (Lustre: mount with flock, not localflock): never start a run twice"
    return judged("locks over nodes", all(refused), found if all(refused) else "two nodes hold one folder", remedy)


def check_collectives(world: World) -> Iterator[Row]:
    if world.device.type == "cuda":
        yield _own_gpus(world)
    yield _collective(PARAMETERS_TRAVEL, world, None, world.device)
    if world.device.type == "cuda":
        yield _collective("collectives gloo", world, world.control, torch.device("cpu"))


def _own_gpus(world: World) -> Row:
    identities = world.gather(str(torch.cuda.get_device_properties(world.device).uuid))
    found = f"{len(set(identities))} GPUs for {world.size} ranks"
    remedy = "start one process per GPU (gpus_per_node), and let Slurm show each its own (srun: {gpus-per-task: 1})"
    return judged("GPU of each rank", len(set(identities)) == world.size, found, remedy)


def _collective(check: str, world: World, group: dist.ProcessGroup | None, device: torch.device) -> Row:
    """Sums and gathered parts of every rank must be right; then how fast they travel."""
    ramp = torch.arange(_VALUES, device=device, dtype=torch.float32) % 1024
    summed = ramp * (world.rank + 1)
    dist.all_reduce(summed, group=group)
    expected = ramp * (world.size * (world.size + 1) / 2)
    parts = [torch.empty(8, device=device) for _ in range(world.size)]
    dist.all_gather(parts, torch.full((8,), float(world.rank), device=device), group=group)
    right = torch.equal(summed, expected) and all(bool((part == rank).all()) for rank, part in enumerate(parts))
    wrong = [rank for rank, good in enumerate(world.gather(right)) if not good]
    speed = _bandwidth(world, group, summed)
    backend = dist.get_backend(group) if group is not None else ("nccl" if device.type == "cuda" else "gloo")
    found = f"{backend}: right on {ranks_of(world)}"
    figures: dict[str, Any] = {"ranks": world.size}
    if speed is not None:
        found, figures = f"{found}, {speed / 1e9:.2f} GB/s each", {**figures, "bytes_per_second": round(speed)}
    remedy = "test the network (NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME, NCCL_P2P_DISABLE=1); leave out the node (exclude)"
    if wrong:
        found = f"{backend}: ranks {', '.join(map(str, wrong))} got wrong sums"
    return judged(check, not wrong, found, remedy, **figures)


def _bandwidth(world: World, group: dist.ProcessGroup | None, values: torch.Tensor) -> float | None:
    """Bytes a second over each link of a ring: the usual "bus bandwidth" of an all-reduce. Of one rank: None."""
    if world.size == 1:
        return None
    _wait_for(values)
    world.broadcast(None)
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        dist.all_reduce(values, group=group)
    _wait_for(values)
    sent = 2 * (world.size - 1) / world.size * values.nbytes * _ROUNDS
    return sent / (time.perf_counter() - began)


def _wait_for(values: torch.Tensor) -> None:
    if values.is_cuda:
        torch.cuda.synchronize(values.device)


def train_alone(world: World, scratch: Path, shards: Path, ranks: int) -> RunMetrics:
    """What all ranks together are compared with; `world` is this process alone."""
    config = sharding_config(make_directory(scratch) / "alone", shards, ranks, world.device.type, "fsdp", "float32")
    return train(config, world)


def sharding_modes(world: World) -> list[Mode]:
    """Those that so many ranks can have."""
    modes: list[Mode] = [("fsdp", "float32", None), ("fsdp", "bfloat16", None), ("replicate", "float32", None)]
    if world.size % 2 == 0:
        group = world.local_size if 1 < world.local_size < world.size else world.size // 2
        modes.append(("hsdp", "float32", group))
    return modes


def check_sharding(world: World, scratch: Path, shards: Path, alone: RunMetrics, modes: list[Mode]) -> Iterator[Row]:
    """Four steps in every mode of sharding, on the real ranks, against one process."""
    if world.size == 1:
        yield Row("sharding", "skip", "there is one process")
        return
    for mode, number_type, group in modes:
        folder = scratch / f"{mode}-{number_type}"
        config = sharding_config(folder, shards, world.size, world.device.type, mode, number_type, group)
        figures = train(config, world)
        weights, name = world.broadcast(differences(folder, scratch / "alone") if world.is_first else None)
        loss = _loss_difference(figures, alone)
        loss_tolerance, weight_tolerance = _TOLERANCES[number_type]
        good = loss <= loss_tolerance and weights <= weight_tolerance
        where = "" if weights <= weight_tolerance else f" ({name})"
        found = f"{ranks_of(world)} against one: losses within {loss:.0e}, weights within {weights:.0e}{where}"
        yield judged(f"sharding {mode} {number_type}", good, found, _WRONG_RANKS, losses=loss, weights=weights)


def ranks_of(world: World) -> str:
    return f"{world.size} rank{'s' if world.size > 1 else ''}"


def _loss_difference(figures: RunMetrics, alone: RunMetrics) -> float:
    if len(figures.losses) != len(alone.losses):
        return math.inf
    worst = 0.0
    for ours, theirs in zip(figures.losses, alone.losses, strict=True):
        for name, expected in theirs.items():
            found = ours.get(name)
            if found is None or expected is None:
                return math.inf
            worst = max(worst, abs(found - expected) / max(abs(expected), 1e-3))
    return worst
