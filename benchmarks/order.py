"""The data order: what a start, a batch and an epoch's border cost, in CPU time, against the time of one step's batch.

    python -m benchmarks.order [--batch 1000]

The ratio is that of a border to an ordinary batch: what the worst step waits for, next to every other.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure, Size
from pretrain.data.order.order import DataOrder
from pretrain.data.order.samples_by_video import sort_samples

SIZES = ((20_000, 200), (1_000_000, 2_000), (10_000_000, 20_000))
MICROGROUPS = 40


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


@dataclass(frozen=True)
class Measured:
    """CPU seconds, and MB."""

    start: float
    batch: float
    border: float
    memory_mb: float


def measure(samples: int, videos: int, batch: int) -> Measured:
    of_sample = np.random.default_rng(0).integers(0, videos, samples)
    corpora = of_sample * 5 // videos  # numbered by corpus, as the shards' are
    before = peak_mb()
    orders: list[DataOrder] = []
    start = seconds(lambda: orders.append(DataOrder(sort_samples(corpora, of_sample), 0, batch, batch // MICROGROUPS)))
    order = orders[0]
    first = seconds(lambda: order.batch(0))
    ordinary = statistics.median(seconds(lambda step=step: order.batch(step)) for step in range(1, 12))  # type: ignore[misc]
    border = next(step for step in range(samples // batch, 10**9) if len(order.parts_of(step)) > 1)
    crossing = seconds(lambda: order.batch(border))
    return Measured(start + first, ordinary, crossing, peak_mb() - before)


def figures(size: Size) -> list[Figure]:
    samples, videos = SIZES[1 if size == "small" else 2]
    measured = measure(samples, videos, 960)
    of = f"{samples:,} samples, 960 a step"
    return [
        Figure("start and first batch", measured.start, "CPU s", of),
        Figure("a batch", 1e3 * measured.batch, "CPU ms", of),
        Figure("border of an epoch", measured.border, "CPU s", of),
        Figure("memory", measured.memory_mb, "MB", of),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=960, help="images of a step; a multiple of 40")
    arguments = parser.parse_args()
    for samples, videos in SIZES:
        measured = measure(samples, videos, arguments.batch)
        print(
            f"{samples:>12,} samples of {videos:>7,} videos: start and first batch {measured.start:.3f} s, "
            f"a batch {1e3 * measured.batch:.1f} ms, border {measured.border:.3f} s, "
            f"memory {measured.memory_mb:.0f} MB; ratio border / batch: {measured.border / measured.batch:.0f}"
        )


if __name__ == "__main__":
    main()
