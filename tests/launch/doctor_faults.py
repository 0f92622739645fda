"""Faults that are planted on two real ranks, each with the check that must find it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import fork_server
import torch
import torch.distributed as dist

from launch.doctor import ranks, training
from launch.doctor.rows import Notes, Row
from pretrain import PretrainConfig, World, build, joined_world
from pretrain.selftest import sharding_config, write_images

Plant = Callable[[World], AbstractContextManager[Any]]


def row_of(rows: Iterator[Row], check: str) -> Row:
    """The row of a check; a bad one has a remedy."""
    found = [row for row in rows if row.check == check]
    assert len(found) == 1, f"no row '{check}'"
    row = found[0]
    assert row.remedy or row.status in ("pass", "skip"), "what is not right needs a remedy"
    return row


def tiny_config(folder: Path, shards: Path, world_size: int) -> PretrainConfig:
    return sharding_config(folder, shards, world_size, "cpu", "fsdp", "float32")


def nothing(_: World) -> AbstractContextManager[Any]:
    return contextlib.nullcontext()


def other_weights(world: World) -> AbstractContextManager[Any]:
    """The second rank's shard of one layer is not what the seed says: a bit that flipped on its way."""
    take_shards = build._take_shards

    def take(objective: torch.nn.Module, whole: dict[str, torch.Tensor]) -> None:
        name = "student.backbone.blocks.0.mlp.fc1.weight"
        take_shards(objective, {**whole, name: whole[name] * 1.5} if world.rank == 1 else whole)

    return mock.patch.object(build, "_take_shards", take)


def forgotten_gradient(world: World) -> AbstractContextManager[Any]:
    """Gradients are summed over the ranks, as they must be, and then not divided."""
    step = torch.nn.utils.clip_grads_with_norm_

    def undivided(parameters: Any, max_norm: float, norm: torch.Tensor) -> None:
        parameters = list(parameters)
        for parameter in parameters:
            parameter.grad.mul_(world.size)
        step(parameters, max_norm, norm * world.size * 0 + max_norm * 1e6)

    return mock.patch.object(torch.nn.utils, "clip_grads_with_norm_", undivided)


def wrong_sum(world: World) -> AbstractContextManager[Any]:
    """One rank hears something else than the others."""
    all_reduce = dist.all_reduce

    def reduce(values: torch.Tensor, *words: Any, **named: Any) -> None:
        all_reduce(values, *words, **named)
        if world.rank == 1:
            values[len(values) // 2] += 1

    return mock.patch.object(dist, "all_reduce", reduce)


@contextlib.contextmanager
def slow_network(_: World) -> Iterator[None]:
    """0.2 s for 20 kB."""
    all_reduce = dist.all_reduce

    def reduce(values: torch.Tensor, *words: Any, **named: Any) -> None:
        if values.numel() == 5000:
            time.sleep(0.2)
        all_reduce(values, *words, **named)

    with mock.patch.object(dist, "all_reduce", reduce), mock.patch.object(ranks, "_VALUES", 5000):
        yield


@contextlib.contextmanager
def folder_of_its_own(world: World) -> Iterator[None]:
    """The second rank sees a disk of its own."""
    is_file = Path.is_file

    def seen(path: Path) -> bool:
        return False if world.rank == 1 and path.name.startswith("seen-") else is_file(path)

    with mock.patch.object(Path, "is_file", seen), mock.patch.object(ranks, "_SEEN_SECONDS", 1.0):
        yield


def locks_of_one_node(world: World) -> AbstractContextManager[Any]:
    """Lustre with localflock: each node has locks of its own."""
    return mock.patch("fcntl.flock", lambda *_: None)


def _shared(world: World, scratch: Path, _: Path, __: Any) -> Iterator[Any]:
    yield from ranks.check_shared_folder(world, scratch)


def _collectives(world: World, _: Path, __: Path, ___: Any) -> Iterator[Any]:
    yield from ranks.check_collectives(world)


def _sharding(world: World, scratch: Path, shards: Path, alone: Any) -> Iterator[Any]:
    yield from ranks.check_sharding(world, scratch, shards, alone, [("fsdp", "float32", None)])


def _training(world: World, scratch: Path, shards: Path, _: Any) -> Iterator[Any]:
    (collectives,) = ranks.check_collectives(world)
    config = tiny_config(scratch / "x", shards, world.size)
    speed = collectives.figures["bytes_per_second"]
    with (
        mock.patch.object(training, "_LOADER_SECONDS", 0.2),
        mock.patch.object(training, "STEPS", 4),
        mock.patch.object(training, "_MATMUL_SECONDS", 0.05),
    ):
        yield from training.check_training(world, config, scratch / "run", speed)


# Name → how the fault is planted, the family of checks that runs, the check that must find it, and its verdict.
FAULTS: dict[str, tuple[Plant, Callable[..., Iterator[Any]], str, str]] = {
    "sound ranks": (nothing, _sharding, "sharding fsdp float32", "pass"),
    "a rank with other weights": (other_weights, _sharding, "sharding fsdp float32", "fail"),
    "gradients that are not divided": (forgotten_gradient, _sharding, "sharding fsdp float32", "fail"),
    "a rank that hears another sum": (wrong_sum, _collectives, "collectives", "fail"),
    "a folder that is not shared": (folder_of_its_own, _shared, "shared folder", "fail"),
    "locks that hold on one node only": (locks_of_one_node, _shared, "locks over nodes", "fail"),
    "a slow network": (slow_network, _training, "traffic", "warn"),
}


def run_on_two_ranks(scratch: Path) -> None:
    """All faults in one pair of processes; every rank leaves its notes in scratch/FAULT/rank_N.jsonl."""
    scratch.mkdir(parents=True, exist_ok=True)
    write_images(scratch / "pictures", 16, drawn=4)
    fork_server.run_ranks(_process, (scratch,), 2)


def _process(rank: int, scratch: Path) -> None:
    torch.set_num_threads(1)
    images = scratch / "pictures"
    os.environ.update(
        RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
        MASTER_PORT=(scratch / "port").read_text(), GLOO_SOCKET_IFNAME="lo",
    )  # fmt: skip
    alone = None
    if rank == 0:
        with joined_world("cpu", 60, alone=True) as world:
            alone = ranks.train_alone(world, scratch / "reference", images, 2)
    with joined_world("cpu", 60) as world:
        alone = world.broadcast(alone)
        for name, (plant, family, _, _) in FAULTS.items():
            folder = scratch / name
            folder.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                (folder / "alone").symlink_to(scratch / "reference" / "alone")
            notes = Notes(folder / f"rank_{rank}.jsonl")
            with plant(world):
                for row in family(world, folder, images, alone):
                    notes.add(row)
