"""Running tasks on Ray: a bounded number at a time, with errors as the caller knows them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from data_pipeline.config import RayConfig
from panendofm.runtime.errors import UserError

_COMMON: dict[str, Any] = {
    "log_to_driver": False,
    "logging_level": "ERROR",
    # Each task is one thread; libraries that see many cores would fight for them.
    "runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}},
}


_SMALLEST_SHARE = 0.01  # of a GPU for a task


@contextmanager
def ray_session(config: RayConfig) -> Iterator[int]:
    """A Ray cluster for the block, and how many tasks may run on it at once. One that is up already stays up."""
    started = not ray.is_initialized()
    scratch = _start(config) if started else None
    try:
        cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
        yield config.workers or max(1, cores)
    finally:
        if started:
            ray.shutdown()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def tasks_on_gpus(gpus: float) -> int:
    """How many tasks that need so much of a GPU each the cluster can run at once."""
    if gpus < _SMALLEST_SHARE:
        raise UserError(f"gpus_per_task={gpus:g} is less than {_SMALLEST_SHARE:g} of a GPU; set more, or 0 for cores.")
    there = float(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]
    if there < gpus:
        raise UserError(f"gpus_per_task={gpus:g}: this Ray cluster has {there:g} GPUs; set gpus_per_task=0 for cores.")
    return int(there / gpus)


def _start(config: RayConfig) -> Path | None:
    """The folder to remove when Ray has ended, where it was started here."""
    if config.address is None:
        return start_local(config.workers or None, config.object_store_mb)
    try:
        ray.init(address=config.address, **_COMMON)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"ray.address {config.address}: no Ray cluster answers there; check it, or leave it out to run here."
        ) from error
    return None


def start_local(cores: int | None, object_store_mb: int) -> Path:
    """A Ray on this machine, without its dashboard and without reports to its makers; its own folder.

    The folder is its owner's alone, and short, for the sockets in it: below /tmp/ray others may look on, and every
    session would stay there for good.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # By itself Ray runs tasks at nice 15: beside any other program of this machine they would hardly go on.
    os.environ.setdefault("RAY_worker_niceness", "0")
    scratch = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    ray.init(
        num_cpus=cores,
        include_dashboard=False,
        object_store_memory=object_store_mb * 1024 * 1024,
        _temp_dir=str(scratch),
        **_COMMON,
    )
    scratch.chmod(0o700)  # Ray opens it to all
    return scratch


def run_tasks(
    function: Callable[..., Any],
    argument_lists: Iterable[tuple[Any, ...]],
    at_once: int,
    retries: int,
    gpus: float = 0.0,
) -> Iterator[tuple[int, Any]]:
    """Call `function` with each list of arguments as Ray tasks; yields (position, result) as they end, in any order.

    No more than `at_once` tasks exist at a time, and their arguments are made when their turn comes: neither the queue
    nor the results pile up. A task whose worker dies is started again; an error inside a task is raised here. `gpus` is
    what each task needs of one.
    """
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=retries)(function)
    running: dict[Any, int] = {}
    waiting = iter(enumerate(argument_lists))
    try:
        while True:
            while len(running) < at_once and (item := next(waiting, None)) is not None:
                running[remote.remote(*item[1])] = item[0]
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                yield running.pop(reference), _result(reference)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, UserError):
            raise UserError(str(error.cause)) from error
        raise
    except RayError as error:
        raise UserError(
            f"a worker died again and again ({str(error).splitlines()[0]}); the machine may be short of memory: "
            "set fewer ray.workers and run the same command again."
        ) from error
