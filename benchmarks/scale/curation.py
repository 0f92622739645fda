"""What the clustering of a curation costs: processor seconds and memory by number of frames.

    python -m benchmarks.scale curation [--frames 20000 100000] [--width 256] [--sample 10000]

Features are generated: groups of very different sizes, on disk as `curate` leaves them. Everything after the features
runs as in `curate`, in a process of its own: clusters, near-duplicates, weights. Memory is the process's own beyond its
imports, pages of the mapped files not among it. With a sample smaller than the frames, time grows with frames and
clusters: the latter, one per 30 frames, grow to 100,000 and no further.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.scale.sharding import in_own_process
from benchmarks.scale.start import anonymous_mb
from data_pipeline.curate.balance import balanced_weights
from data_pipeline.curate.clustering import cluster
from data_pipeline.curate.config import BalanceConfig, ClusteringConfig, NearDuplicatesConfig
from data_pipeline.curate.duplicates import best_matches, choose_threshold, duplicates
from data_pipeline.curate.features import unit_rows
from data_pipeline.curate.mapped import Features

FRAMES_PER_SHARD, FRAMES_PER_VIDEO, GROUPS = 4000, 500, 200
_POLL_SECONDS = 0.02


def generate(folder: Path, frames: int, width: int) -> None:
    """Groups of frames whose sizes fall as 1, 1/2, 1/3, …, a file per shard."""
    random = np.random.default_rng(0)
    centers = random.standard_normal((GROUPS, width), dtype=np.float32)
    share = 1 / np.arange(1, GROUPS + 1)
    for number, first in enumerate(range(0, frames, FRAMES_PER_SHARD)):
        count = min(FRAMES_PER_SHARD, frames - first)
        group = random.choice(GROUPS, count, p=share / share.sum())
        features = centers[group] + 0.7 * random.standard_normal((count, width), dtype=np.float32)
        np.save(folder / f"{number:06d}.npy", unit_rows(features))


def work(folder: Path, config: ClusteringConfig, report: Callable[[dict[str, float]], None]) -> None:
    """As `curate` does it."""
    features = Features([np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))])
    seconds = {}
    began = time.process_time()
    hierarchy = cluster(features, config, 0)
    seconds["clusters"] = time.process_time() - began
    rows = np.arange(len(features))
    near = NearDuplicatesConfig()
    began = time.process_time()
    matches = best_matches(features, hierarchy.parents[0], rows // FRAMES_PER_VIDEO, rows / 4.0, near.seconds)
    choose_threshold(*matches, near)
    gone = duplicates(features, hierarchy.parents[0], 0.95)
    seconds["near-duplicates"] = time.process_time() - began
    balanced_weights(hierarchy, BalanceConfig(), ~gone)
    report(seconds)


def measured(folder: Path, config: ClusteringConfig) -> tuple[dict[str, float], float]:
    """Processor seconds of each part, and the peak of the process's own memory in MB."""
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    process = context.Process(target=work, args=(folder, config, answer.put))
    process.start()
    before = peak = anonymous_mb(process.pid or 0)
    while process.is_alive():
        peak = max(peak, anonymous_mb(process.pid or 0))
        time.sleep(_POLL_SECONDS)
    process.join()
    return answer.get(), peak - before


def main(counts: list[int], width: int, sample: int) -> None:
    per_frame = []
    for count in counts:
        config = ClusteringConfig(sample_frames=sample)
        with tempfile.TemporaryDirectory() as name:
            in_own_process(lambda folder=Path(name), n=count: generate(folder, n, width))  # type: ignore[misc]
            seconds, peak = measured(Path(name), config)
        per_frame.append(sum(seconds.values()) / count)
        shown = ", ".join(f"{part} {spent:.1f} s" for part, spent in seconds.items())
        print(
            f"{count:,} frames of width {width} in {config.levels(count)[0]:,} clusters, {min(sample, count):,} in the "
            f"sample: {shown}, {1e3 * per_frame[-1]:.3f} ms a frame; memory {peak:.0f} MB (the features: "
            f"{4e-6 * count * width:.0f} MB)"
        )
    print(f"ms a frame, last / first: {per_frame[-1] / per_frame[0]:.2f} (linear: 1)")
