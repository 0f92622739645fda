"""One format in a process of its own, so that its memory is its own. Imports only what that format needs."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WARM_UP = 2
_LEAST = 5  # batches


@dataclass(frozen=True)
class Job:
    format: str
    release: Path
    graph: Path | None  # None: torch
    sizes: list[tuple[int, int]]  # batch size, side in pixels
    seconds: float  # least time of each
    threads: int


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each batch, and CPU milliseconds of all of them together."""

    batch_ms: list[float]
    cpu_ms: float


def measure(job: Job) -> tuple[list[Measured], float]:
    """One `Measured` a size, and the peak memory of this process in MB."""
    run = _with_torch(job) if job.graph is None else _with_onnxruntime(job)
    found = []
    for batch_size, side in job.sizes:
        images = np.random.default_rng(0).standard_normal((batch_size, 3, side, side)).astype(np.float32)
        for _ in range(_WARM_UP):
            run(images)
        found.append(_timed(run, images, job.seconds))
    return found, peak_memory_mb()


def peak_memory_mb() -> float:
    """Of this process alone: what getrusage says begins, on Linux, with the peak of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return (
            float(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))) / 1024
        )
    # Kilobytes, but bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _timed(run: Callable[[NDArray[np.float32]], Any], images: NDArray[np.float32], seconds: float) -> Measured:
    times: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()
    while len(times) < _LEAST or time.perf_counter() - began < seconds:
        before = time.perf_counter()
        run(images)
        times.append(1000 * (time.perf_counter() - before))
    return Measured(times, 1000 * (time.process_time() - cpu))


def _with_onnxruntime(job: Job) -> Callable[[NDArray[np.float32]], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    session = onnxruntime.InferenceSession(job.graph, options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(["cls"], {"images": images})


def _with_torch(job: Job) -> Callable[[NDArray[np.float32]], Any]:
    import torch

    from panendofm.backbone import load_backbone

    torch.set_num_threads(job.threads)
    model = load_backbone(job.release).model

    def run(images: NDArray[np.float32]) -> Any:
        with torch.inference_mode():
            return model(torch.from_numpy(images)).cls

    return run
