"""The processes of a run: found from torchrun's or Slurm's environment, or this one alone."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist

from runtime.errors import EXIT_USER_ERROR, UserError


@dataclass(frozen=True)
class Place:
    """Where this process stands among the others, before any of them has spoken."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    address: str | None  # of rank 0; None when there is only one process
    port: int | None


@dataclass(frozen=True)
class World:
    """The processes of a run, connected."""

    rank: int
    size: int
    local_size: int
    device: torch.device
    control: dist.ProcessGroup  # flags and figures, on the CPU
    saving: dist.ProcessGroup  # checkpoints, written while training goes on: must not share a group with it

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Sums over ranks."""
        summed = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(summed, group=self.control)
        return [float(value) for value in summed]

    def first_says(self, value: Any) -> Any:
        """What rank 0 gave, on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """What every rank gave, in rank order, on every rank."""
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, value, group=self.control)
        return everyone


def find_place(environment: Mapping[str, str]) -> Place:
    """Rank and world size by torchrun's variables, by those of a Slurm step, or of a process alone."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        size = int(environment["WORLD_SIZE"])
        return Place(
            int(environment["RANK"]),
            size,
            int(environment.get("LOCAL_RANK", 0)),
            int(environment.get("LOCAL_WORLD_SIZE", size)),
            environment.get("MASTER_ADDR", "127.0.0.1"),
            int(environment["MASTER_PORT"]) if "MASTER_PORT" in environment else None,
        )
    # Only srun sets the step's variables: a plain `python` in a batch script is one process, whatever was allocated.
    if int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        size = int(environment["SLURM_STEP_NUM_TASKS"])
        nodes = int(environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", 1)))
        # Every task of a job finds the same port, and two jobs on one machine rarely do.
        port = (
            20_000 + (int(environment.get("SLURM_JOB_ID", 0)) * 17 + int(environment.get("SLURM_STEP_ID", 0))) % 20_000
        )
        return Place(
            int(environment["SLURM_PROCID"]),
            size,
            int(environment.get("SLURM_LOCALID", 0)),
            -(-size // nodes),
            environment.get("MASTER_ADDR", first_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))),
            int(environment.get("MASTER_PORT", port)),
        )
    return Place(0, 1, 0, 1, None, None)


def first_host(node_list: str) -> str:
    """The first name of a Slurm node list: gpu[07-09,12],login1 → gpu07."""
    match = re.match(r"([^,\[]+)(?:\[([^\]]+)\])?([^,]*)", node_list)
    if match is None:
        raise UserError(f"SLURM_STEP_NODELIST='{node_list}' is not a list of nodes; set MASTER_ADDR yourself.")
    prefix, numbers, suffix = match.groups()
    return prefix + (re.split(r"[,-]", numbers)[0] if numbers else "") + suffix


@contextmanager
def joined_world(device: Literal["auto", "cpu", "cuda"], timeout_seconds: float) -> Iterator[World]:
    """Connect the processes for the length of the block.

    A process of several that fails in the block ends at once, without waiting for the others: its closed connections
    end them too.
    """
    place = find_place(os.environ)
    cuda = torch.cuda.is_available() if device == "auto" else device == "cuda"
    if cuda and not torch.cuda.is_available():
        raise UserError("run.device=cuda, but torch sees no CUDA device here; set run.device=cpu or auto.")
    here = torch.device("cuda", place.local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(here)
    timeout = timedelta(seconds=timeout_seconds)
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    if place.size == 1 and place.port is None:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)  # type: ignore[attr-defined]
    else:
        address = f"tcp://{place.address}:{place.port}"
        environment_is_set = "RANK" in os.environ
        dist.init_process_group(
            backend,
            init_method=None if environment_is_set else address,
            rank=-1 if environment_is_set else place.rank,
            world_size=-1 if environment_is_set else place.size,
            timeout=timeout,
        )
    control, saving = (dist.new_group(backend="gloo", timeout=timeout) for _ in range(2))
    world = World(place.rank, place.size, place.local_size, here, control, saving)
    try:
        yield world
    except BaseException as error:
        if place.size == 1:
            dist.destroy_process_group()
            raise
        _leave_at_once(error)
    # Without the barrier a process may take its connections down while another still uses them.
    dist.barrier(group=control)
    dist.destroy_process_group()


def _leave_at_once(error: BaseException) -> None:
    if isinstance(error, UserError):
        print(f"error: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a saving thread may wait for ranks that are gone, and would be joined.
    os._exit(EXIT_USER_ERROR if isinstance(error, UserError) else 1)
