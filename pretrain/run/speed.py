"""How fast a run goes."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pretrain.config import PretrainConfig
from pretrain.plan.work import flops_per_image


class Clock:
    """Speed since the last logged step."""

    def __init__(self, step: int, config: PretrainConfig, world_size: int) -> None:
        self._images_per_step = config.batch.images
        self._peak_flops = (config.log.peak_tflops_per_rank or 0.0) * 1e12 * world_size
        self._flops_per_image = flops_per_image(config)
        self._on_gpu = config.run.device != "cpu" and torch.cuda.is_available()
        self._waited = 0.0
        self._step = step
        self._time = time.perf_counter()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """For what is no part of a step, such as an evaluation: the time of the block is not counted."""
        began = time.perf_counter()
        yield
        self._time += time.perf_counter() - began

    def speed_at(self, step: int, waited: float) -> dict[str, float]:
        """The metrics of the steps before `step`; `waited`: seconds spent waiting for data, since the start."""
        seconds, steps = time.perf_counter() - self._time, step - self._step
        metrics = {
            "step_seconds": seconds / steps,
            "images_per_second": steps * self._images_per_step / seconds,
            "data_wait_share": (waited - self._waited) / seconds,
            "memory_gb": _memory_gb(self._on_gpu),
        }
        if self._peak_flops:
            # The share of the devices' peak that went into the model's own arithmetic.
            metrics["mfu"] = metrics["images_per_second"] * self._flops_per_image / self._peak_flops
        self._waited = waited
        self._step = step
        self._time = time.perf_counter()
        return metrics


def _memory_gb(on_gpu: bool) -> float:
    """The most that this process has used, on its GPU or in main memory."""
    if on_gpu:
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
