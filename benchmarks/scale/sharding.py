"""Phase two of sharding: the driver's share, the sorting of runs and the writing of shards, by number of frames.

    python -m benchmarks.scale sharding [--frames 20000 100000] [--jpeg-bytes 4000]
    python -m benchmarks.scale driver [--rows 100000 1000000]

Parts are generated (small images). Each step runs in a process of its own, one worker's work after another's:
processor time is that of all workers together, memory the peak of the process beyond its imports.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scale.generated_parts import write_parts
from data_pipeline.output.manifest import join_rows
from data_pipeline.output.merge_parts import FrameRows, collect
from data_pipeline.output.shuffle import RUN_BYTES, Shuffle, plan_shuffle, write_run
from data_pipeline.output.tars import shards_for, write_shard
from data_pipeline.screening.config import DuplicatesConfig
from panendofm.records.shards import shard_name

FRAMES_PER_PART = 500
# As many shards and runs a frame as sets of real images have, in proportion to their bytes.
SHARD_BYTES, SMALL_RUN_BYTES = 4e6, 16_000_000


def phase_two(parts: list[Path], out: Path, shard_bytes: float, run_bytes: int = RUN_BYTES) -> None:
    """All of it, as `shard` does it, without Ray."""
    rows = collect(parts, DuplicatesConfig()).rows
    shuffle = planned(rows, parts, shard_bytes, run_bytes)
    runs = sort_runs(shuffle, out)
    write_shards(shuffle, runs, out)
    join_rows(sorted((out / "shuffle").glob("rows-*.arrow")), out / "manifest.parquet")


def planned(rows: FrameRows, parts: list[Path], shard_bytes: float, run_bytes: int) -> Shuffle:
    return plan_shuffle(rows, parts, shards_for(len(rows), int(rows.sizes.sum()), shard_bytes), run_bytes)


def sort_runs(shuffle: Shuffle, out: Path) -> list[Path]:
    (out / "shuffle").mkdir()
    runs = [out / "shuffle" / f"run-{number:06d}.arrow" for number in range(len(shuffle.runs))]
    for run, pieces in zip(runs, shuffle.runs, strict=True):
        write_run(run, pieces)
    return runs


def write_shards(shuffle: Shuffle, runs: list[Path], out: Path) -> None:
    for number in range(shuffle.stretches.shape[1] - 1):
        rows = out / "shuffle" / f"rows-{number:06d}.arrow"
        write_shard(out / shard_name(number), number, shuffle.stretches_of(number, runs), rows)


def in_own_process(work: Callable[[], Any]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak MB beyond the start of `work`, whose result is dropped."""
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()

    def measured() -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak of the parent is not ours
        before, wall, processor = _peak_mb(), time.perf_counter(), time.process_time()
        work()
        answer.put((time.perf_counter() - wall, time.process_time() - processor, _peak_mb() - before))

    process = context.Process(target=measured)
    process.start()
    process.join()
    figures: tuple[float, float, float] = answer.get()
    return figures


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(frames: list[int], jpeg_bytes: int) -> None:
    per_frame = []
    for count in frames:
        with tempfile.TemporaryDirectory() as name:
            parts = _generated(Path(name) / "parts", count, jpeg_bytes)
            out = Path(name) / "out"
            out.mkdir()
            steps: dict[str, Callable[[], Any]] = {
                "driver": lambda parts=parts: _plan(parts),  # type: ignore[misc]
                "sort": lambda parts=parts, out=out: sort_runs(_plan(parts), out),  # type: ignore[misc]
                "write": lambda parts=parts, out=out: write_shards(  # type: ignore[misc]
                    _plan(parts), sorted((out / "shuffle").glob("run-*.arrow")), out
                ),
                "manifest": lambda out=out: join_rows(  # type: ignore[misc]
                    sorted((out / "shuffle").glob("rows-*.arrow")), out / "manifest.parquet"
                ),
            }
            figures = {step: in_own_process(work) for step, work in steps.items()}
        planning = figures["driver"][1]
        seconds = {step: cpu - (planning if step in ("sort", "write") else 0) for step, (_, cpu, _) in figures.items()}
        total = sum(seconds.values())
        per_frame.append(total / count)
        shown = ", ".join(f"{step} {seconds[step]:.1f} s {figures[step][2]:.0f} MB" for step in steps)
        print(f"{count:,} frames: {total:.1f} cpu seconds, {1e3 * total / count:.3f} ms a frame ({shown})")
    print(f"ms a frame, last / first: {per_frame[-1] / per_frame[0]:.2f} (linear: 1)")


def _generated(folder: Path, frames: int, jpeg_bytes: int, with_bytes: bool = True) -> list[Path]:
    """By a process of its own: memory that this one had used and freed would not be counted again."""
    in_own_process(lambda: write_parts(folder, frames, FRAMES_PER_PART, jpeg_bytes, with_bytes))
    return sorted(folder.iterdir())


def _plan(parts: list[Path]) -> Shuffle:
    return planned(collect(parts, DuplicatesConfig()).rows, parts, SHARD_BYTES, SMALL_RUN_BYTES)


def driver(rows: list[int]) -> None:
    """The driver alone: no bytes of images are needed."""
    for count in rows:
        with tempfile.TemporaryDirectory() as name:
            parts = _generated(Path(name) / "parts", count, 60_000, with_bytes=False)
            _, cpu, peak = in_own_process(lambda parts=parts: _plan(parts))  # type: ignore[misc]
        print(f"driver, {count:,} rows: {cpu:.1f} cpu seconds, {peak:.0f} MB, {1e6 * peak / count:.0f} bytes a row")
