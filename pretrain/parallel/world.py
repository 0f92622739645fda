"""The processes of a run: found from torchrun's or Slurm's environment, or this one alone."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist

from panendofm.runtime.errors import EXIT_USER_ERROR, UserError

# How often ranks make sure that all are there.
_HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True)
class ProcessPlace:
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
    control: dist.ProcessGroup  # flags and metrics, on the CPU
    saving: dist.ProcessGroup  # checkpoints, written while training goes on: must not share a group with it

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Sums over ranks."""
        summed = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(summed, group=self.control)
        return [float(value) for value in summed]

    def broadcast(self, value: Any) -> Any:
        """What rank 0 gave, on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """What every rank gave, in rank order, on every rank."""
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, value, group=self.control)
        return gathered


def place_of_process(environment: Mapping[str, str]) -> ProcessPlace:
    """Rank and world size by torchrun's variables, by those of a Slurm step, or of a process alone."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        size = int(environment["WORLD_SIZE"])
        if size > 1 and "MASTER_PORT" not in environment:
            raise UserError(
                f"WORLD_SIZE={size} is set, but MASTER_PORT is not; start the ranks with torchrun or srun, "
                "or set MASTER_ADDR and MASTER_PORT as well."
            )
        return ProcessPlace(
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
        return ProcessPlace(
            int(environment["SLURM_PROCID"]),
            size,
            int(environment.get("SLURM_LOCALID", 0)),
            -(-size // nodes),
            environment.get("MASTER_ADDR", first_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))),
            int(environment.get("MASTER_PORT", port)),
        )
    return ProcessPlace(0, 1, 0, 1, None, None)


def first_host(node_list: str) -> str:
    """The first name of a Slurm node list: gpu[07-09,12],login1 → gpu07."""
    match = re.match(r"([^,\[]+)(?:\[([^\]]+)\])?([^,]*)", node_list)
    if match is None:
        raise UserError(f"SLURM_STEP_NODELIST='{node_list}' is not a list of nodes; set MASTER_ADDR yourself.")
    prefix, numbers, suffix = match.groups()
    return prefix + (re.split(r"[,-]", numbers)[0] if numbers else "") + suffix


def device_index(local_rank: int, visible: int) -> int:
    """Which of the GPUs that a process sees is its own. Slurm may show every task only its own one."""
    if visible == 1:
        return 0
    if local_rank >= visible:
        raise UserError(
            f"the node has {visible} visible GPUs, but a rank with the local number {local_rank}; "
            "start as many ranks per node as there are GPUs."
        )
    return local_rank


@contextmanager
def joined_world(
    device: Literal["auto", "cpu", "cuda"], timeout_seconds: float, alone: bool = False
) -> Iterator[World]:
    """Connect the processes for the length of the block; `alone`: each of them is a world of its own.

    A process of several that fails in the block ends at once, without waiting for the others: its closed connections
    end them too.
    """
    place = place_of_process(os.environ)
    cuda = torch.cuda.is_available() if device == "auto" else device == "cuda"
    if cuda and not torch.cuda.is_available():
        raise UserError("run.device=cuda, but torch sees no CUDA device here; set run.device=cpu or auto.")
    own_device = torch.device("cpu")
    if cuda:
        own_device = torch.device("cuda", device_index(place.local_rank, torch.cuda.device_count()))
        torch.cuda.set_device(own_device)
    if alone:
        place = ProcessPlace(0, 1, 0, 1, None, None)
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
    control, saving, heartbeat = (dist.new_group(backend="gloo", timeout=timeout) for _ in range(3))
    world = World(place.rank, place.size, place.local_size, own_device, control, saving)
    if place.size == 1:
        try:
            yield world
        finally:
            dist.destroy_process_group()
        return
    beating = Heartbeat(heartbeat, place.size)
    try:
        yield world
    except BaseException as error:
        _abort(error)
    # Without this a process might take its connections down while another still uses them.
    beating.stop_together()
    dist.destroy_process_group()


class Heartbeat:
    """A thread that notices when another rank is gone, whatever the training thread is doing.

    A collective on the CPU fails when a rank's connections close. One on the GPU may spin until its time is up, and a
    rank that evaluates or waits for data calls none. So all ranks add up a number every few seconds, over a group of
    their own; when that fails, the process ends. A rank that is there but does not answer has the group's time.
    """

    def __init__(self, group: dist.ProcessGroup, size: int) -> None:
        self._group = group
        self._size = size
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def stop_together(self) -> None:
        """Return when every rank has called this."""
        self._leaving.set()
        self._thread.join()

    def _beat(self) -> None:
        leaving = torch.zeros(1)
        while int(leaving) < self._size:
            self._leaving.wait(_HEARTBEAT_SECONDS)
            leaving.fill_(float(self._leaving.is_set()))
            try:
                dist.all_reduce(leaving, group=self._group)
            except RuntimeError as error:
                time.sleep(_HEARTBEAT_SECONDS)  # the training thread may know better why, and then it ends the process
                _abort(RankLostError(f"another rank is gone, or has not answered for too long ({error})"))


class RankLostError(Exception):
    """A run can't go on without one of its ranks."""


def _abort(error: BaseException) -> None:
    if isinstance(error, UserError):
        print(f"error: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a saving thread may wait for ranks that are gone, and would be joined.
    os._exit(EXIT_USER_ERROR if isinstance(error, UserError) else 1)
