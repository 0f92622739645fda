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

import numpy as np

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


def measure(samples: int, videos: int, batch: int) -> None:
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
    print(
        f"{samples:>12,} samples of {videos:>7,} videos: start and first batch {start + first:.3f} s, "
        f"a batch {1e3 * ordinary:.1f} ms, border {crossing:.3f} s, memory {peak_mb() - before:.0f} MB; "
        f"ratio border / batch: {crossing / ordinary:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=960, help="images of a step; a multiple of 40")
    arguments = parser.parse_args()
    for samples, videos in SIZES:
        measure(samples, videos, arguments.batch)


if __name__ == "__main__":
    main()
