"""What the ranks of a node pay for ten million samples: at the start, at the first batch, and at borders.

    python -m benchmarks.scale start [--samples 10000000] [--ranks 8]

The index is generated; the ranks open it as training does. All start at once, so that wall time is that of as many
processes on the cores that there are; processor time is a rank's own. Memory is a rank's anonymous memory beyond what
its imports took, watched from outside every few milliseconds: pages of the map are the kernel's and counted once.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from panendofm.records.curation import write_curation
from panendofm.records.shards import Manifest, ShardFolder, index_name, shard_name
from pretrain.data.order.mapped_weights import mapped_weights
from pretrain.data.order.order import DataOrder
from pretrain.data.order.samples_by_video import sort_samples
from pretrain.data.storage.sample_index import index_path, write_index
from pretrain.data.storage.shards import open_shards

CORPORA, FRAMES_PER_VIDEO, SAMPLES_PER_SHARD = 5, 500, 10_000
BATCH, MICROGROUP = 960, 24
_POLL_SECONDS = 0.005
# How the samples are ordered: data.sampling_weights and data.window_shards.
MODES: dict[str, dict[str, Any]] = {
    "every sample once": {},
    "windows of 20 shards": {"window_shards": 20},
    "weights of corpora": {"weights": [3.0, 1.0, 1.0, 1.0, 1.0]},
    "weights of single samples": {"table": "curation.parquet"},
    "weights of single samples, windows of 20 shards": {"table": "curation.parquet", "window_shards": 20},
}
# A fifth of the frames is never seen, and no frame more often than so.
MOST_USES = 16.0


def generate(folder: Path, indexes: Path, samples: int) -> None:
    """A folder of shards without their bytes, and the index of `samples` samples in them."""
    shards = [shard_name(number) for number in range(max(1, samples // SAMPLES_PER_SHARD))]
    folder.mkdir(parents=True)
    for name in shards:
        (folder / name).touch()
        (folder / index_name(name)).touch()
    files = ShardFolder(folder)
    files.write_manifest(Manifest(shards))
    files.frames.touch()
    random = np.random.default_rng(0)
    count = max(CORPORA, samples // FRAMES_PER_VIDEO)
    videos = random.integers(0, count, samples)
    runs = sort_samples(videos * CORPORA // count, videos)
    shard_of = (np.arange(samples) * len(shards) // samples).astype(np.int32)
    columns = {
        "key": pa.array(np.char.mod("%020x", np.arange(samples))),
        "shard_of": pa.array(shard_of),
        "offsets": pa.array(np.arange(samples) * 100_000),
        "sizes": pa.array(random.integers(40_000, 90_000, samples)),
        "rows": pa.array(runs.rows),
    }
    names = [f"corpus{number}" for number in range(CORPORA)]
    path = index_path(folder, shards, indexes)
    write_index(path, pa.table(columns), runs, names, [10**9] * len(shards), "0" * 64)
    weights = np.minimum(random.exponential(size=samples) ** 2, MOST_USES)
    weights[random.random(samples) < 0.2] = 0.0
    clusters = np.zeros((samples, 2), np.int32)
    write_curation(folder / "curation.parquet", columns["key"], clusters, weights)


def rank(folder: Path, indexes: Path, mode: str, go: Any, answer: Connection) -> None:
    """One rank: opens the shards, makes its order, the first batch and one that lies across a border."""
    answer.send("ready")
    go.wait()
    report: dict[str, tuple[float, float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        report[name] = (time.perf_counter() - wall, time.process_time() - processor)
        return result

    shards = timed("open", lambda: open_shards(folder, indexes=indexes))
    words = {"weights": None, "window_shards": None, "table": None, **MODES[mode]}

    def ordered() -> DataOrder:
        of_samples = mapped_weights(folder / words["table"], shards) if words["table"] else None
        windows = words["window_shards"]
        return DataOrder(shards.runs, 0, BATCH, MICROGROUP, words["weights"], shards.shard_of, windows, of_samples)

    order: DataOrder = timed("order", ordered)
    timed("first batch", lambda: order.batch(0))
    timed("a batch", lambda: order.batch(1))
    step = next(step for step in range(2, 10**9) if len(order.parts_of(step)) > 1)
    timed("border", lambda: order.batch(step))
    answer.send(report)
    answer.recv()  # stays, so that all ranks hold their memory at once


def anonymous_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), 0.0)


def measure(folder: Path, indexes: Path, mode: str, ranks: int) -> None:
    context = multiprocessing.get_context("fork")  # imports are not what is measured
    go = context.Event()
    ends, processes = [], []
    for _ in range(ranks):
        ours, theirs = context.Pipe()
        process = context.Process(target=rank, args=(folder, indexes, mode, go, theirs))
        process.start()
        ends.append(ours)
        processes.append(process)
    for end in ends:
        end.recv()
    pids = [process.pid or 0 for process in processes]
    before = [anonymous_mb(pid) for pid in pids]
    peaks = before
    go.set()
    while not all(end.poll() for end in ends):
        peaks = [max(peak, anonymous_mb(pid)) for peak, pid in zip(peaks, pids, strict=True)]
        time.sleep(_POLL_SECONDS)
    after = [anonymous_mb(pid) for pid in pids]
    reports = [end.recv() for end in ends]
    for end, process in zip(ends, processes, strict=True):
        end.send("end")
        process.join()
    peak = max(p - b for p, b in zip(peaks, before, strict=True))
    kept = max(a - b for a, b in zip(after, before, strict=True))
    start = [sum(report[name][1] for name in ("open", "order")) for report in reports]
    wall = max(sum(report[name][0] for name in ("open", "order")) for report in reports)
    worst = {name: max(report[name][1] for report in reports) for name in reports[0]}
    print(
        f"{mode}: {ranks} ranks start in {max(start):.2f} cpu seconds each (all at once: {wall:.2f} s), first batch "
        f"{worst['first batch']:.3f}, a batch {worst['a batch']:.4f}, border {worst['border']:.3f} cpu seconds; "
        f"memory a rank beyond the map: peak {peak:.0f} MB, kept {kept:.0f} MB"
    )


def main(samples: int, ranks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, indexes = Path(name) / "shards", Path(name) / "indexes"
        generator = multiprocessing.get_context("fork").Process(target=generate, args=(folder, indexes, samples))
        generator.start()  # a process of its own: its memory ends with it
        generator.join()
        size = sum(path.stat().st_size for path in indexes.rglob("*") if path.is_file())
        print(f"{samples:,} samples of {samples // FRAMES_PER_VIDEO:,} videos; an index of {size / 1e6:.0f} MB, mapped")
        for mode in MODES:
            measure(folder, indexes, mode, ranks)
