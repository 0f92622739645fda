"""The verb `time`: each image alone, from file to label, and the network alone; three repeats and their spread."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from panendofm.linear_probe.config import TimeConfig
from panendofm.linear_probe.heads.head_run import HeadRun, image_files, open_exclusive_head
from panendofm.linear_probe.inference.predict import COLUMNS, Line, answer_rows
from panendofm.records.documents import write_document
from panendofm.runtime.console import say, table
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text
from panendofm.runtime.machine import processor_name
from panendofm.scoring.statistics.speed import speed_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timing:
    """Milliseconds per image in the middle repeat; `spread` is that of the repeats' means."""

    images: int
    mean_ms: float
    median_ms: float
    p95_ms: float
    fps: float
    real_time: dict[str, bool]
    mean_ms_of_repeats: list[float]
    spread: float


@dataclass(frozen=True)
class TimingResults:
    """OUT.timing.json."""

    images: int
    repeats: int
    with_decoding: Timing
    network_alone: Timing
    peak_memory_mb: float
    device: str
    threads: int
    architecture: str
    weights_sha256: str
    versions: dict[str, str]
    format: Literal[1] = 1


def time_head(head_path: Path, images: Sequence[str], config: TimeConfig) -> TimingResults:
    """Write a submission whose times include decoding, and OUT with .timing.json: both times and what was used."""
    run = open_exclusive_head(head_path, config)
    files = image_files(images)
    paths = [Path(config.root or "") / file for file in files]
    out = Path(config.out)
    run.answer(run.prepare([paths[0]]))  # the first pass sets things up
    whole: list[Floats] = []
    alone: list[Floats] = []
    rows: list[Line] = []
    for _ in range(config.repeats):
        ends, inner, rows = _pass(run, files, paths)
        whole.append(ends)
        alone.append(inner)
    middle = int(np.argsort([times.mean() for times in whole])[len(whole) // 2])
    rows = [(*row[:3], f"{whole[middle][i]:.3f}") for i, row in enumerate(rows)]
    write_text(out, csv_text(COLUMNS, rows))
    results = TimingResults(
        images=len(files),
        repeats=config.repeats,
        with_decoding=_timing(whole),
        network_alone=_timing(alone),
        peak_memory_mb=peak_memory_mb(run.device),
        device=device_name(run.device),
        threads=torch.get_num_threads(),
        architecture=run.network.architecture,
        weights_sha256=run.network.weights_sha256,
        versions={"python": platform.python_version(), "torch": torch.__version__},
    )
    write_document(out.with_suffix(".timing.json"), results)
    _say(results, out)
    return results


def _pass(run: HeadRun, files: Sequence[Path], paths: Sequence[Path]) -> tuple[Floats, Floats, list[Line]]:
    ends, inner, rows = [], [], []
    for file, path in zip(files, paths, strict=True):
        began = time.perf_counter()
        batch = run.prepare([path])
        read = time.perf_counter()
        answer = run.answer(batch)[0]  # on the CPU: it waits for the device
        done = time.perf_counter()
        ends.append(1000 * (done - began))
        inner.append(1000 * (done - read))
        rows += answer_rows(run.head.info, str(file), answer, ends[-1])
    return np.array(ends), np.array(inner), rows


def _timing(repeats: Sequence[Floats]) -> Timing:
    speeds = sorted((speed_of(times) for times in repeats), key=lambda speed: speed.mean_ms)
    middle = speeds[len(speeds) // 2]
    return Timing(
        **asdict(middle),
        real_time=middle.real_time(),
        mean_ms_of_repeats=[speed.mean_ms for speed in speeds],
        spread=(speeds[-1].mean_ms - speeds[0].mean_ms) / middle.mean_ms,
    )


def peak_memory_mb(device: torch.device) -> float:
    """Of this process so far, or of the GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def _say(results: TimingResults, out: Path) -> None:
    rows = []
    for name, timing in (("with decoding", results.with_decoding), ("network alone", results.network_alone)):
        values = (timing.mean_ms, timing.median_ms, timing.p95_ms, timing.fps)
        rows.append([name, *(f"{value:.2f}" for value in values), f"{timing.spread:.0%}"])
    title = f"{results.images} images one by one on {results.device}, {results.threads} threads"
    table(title, ["milliseconds", "mean", "median", "p95", "images/s", "spread"], rows)
    say(f"peak memory {results.peak_memory_mb:.0f} MB; submission: {out}; {out.with_suffix('.timing.json').name}")
