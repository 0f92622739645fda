"""`panendofm benchmark RELEASE`: images/s, latency and memory of every format, by batch and size, on this machine."""

from __future__ import annotations

import multiprocessing
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from panendofm.backbone import Preprocessing
from panendofm.deployment.config import FORMATS, TORCH, BenchmarkConfig
from panendofm.deployment.measure import Job, Measured, measure
from panendofm.deployment.results import BenchmarkResults, Cell, Machine
from panendofm.records.documents import write_document
from panendofm.records.release import ReleaseFolder, ReleaseInfo, is_graph
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.machine import processor_name


def run_benchmark(source: Path, config: BenchmarkConfig) -> BenchmarkResults:
    """Write `config.out` and print the table."""
    folder, release, formats = formats_of(source, config)
    patch = int(release.vit["patch_px"])
    sides = config.sides_px or [Preprocessing.from_dict(release.preprocessing).crop_px]
    unfit = [side for side in sides if side % patch]
    if unfit:
        raise UserError(f"sides_px: {unfit[0]} is no multiple of the patch, which is {patch} px; choose another.")
    machine = this_machine(config)
    sizes = [(batch_size, side) for side in sides for batch_size in config.batch_sizes]
    rounds: list[dict[str, tuple[list[Measured], float]]] = []
    for number in range(config.repeats):
        found = {}
        for name in formats:
            graph = folder.weights(name) if is_graph(name) else None
            job = Job(name, source, graph, sizes, config.seconds, machine.threads)
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, context) as pool:
                found[name] = pool.submit(measure, job).result()
            say(f"round {number + 1}/{config.repeats}: {name}")
        rounds.append(found)
    cells = [_cell(name, formats[0], place, size, rounds) for place, size in enumerate(sizes) for name in formats]
    results = BenchmarkResults(
        release.name, release.architecture, release.weights_sha256, machine, config.repeats, cells
    )
    write_document(Path(config.out), results)
    _say(results, Path(config.out))
    return results


def formats_of(source: Path, config: BenchmarkConfig) -> tuple[ReleaseFolder, ReleaseInfo, list[str]]:
    """The release, and which of its formats are measured; torch first, as others are compared with it."""
    folder = ReleaseFolder(source)
    if not folder.is_release():
        raise UserError(f"cannot time {source}: it is no release; export one with `panendofm export`.")
    release = folder.read()
    there = [name for name in FORMATS if name in release.weights]
    if any(not is_graph(name) for name in release.weights):
        there = [TORCH, *there]
    missing = [name for name in config.formats if name not in there]
    if missing:
        raise UserError(
            f"{source} has no {missing[0]} (only {', '.join(there)}); `panendofm compress` adds fp16 and int8 graphs."
        )
    return folder, release, [name for name in there if name in (config.formats or there)]


def this_machine(config: BenchmarkConfig) -> Machine:
    versions = {"python": platform.python_version()}
    for package in ("torch", "onnxruntime"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(processor_name(), cores, config.threads or cores, versions)


def _cell(
    name: str,
    first: str,
    place: int,
    size: tuple[int, int],
    rounds: list[dict[str, tuple[list[Measured], float]]],
) -> Cell:
    own = [found[name][0][place] for found in rounds]
    reference = [found[first][0][place] for found in rounds]
    batches = np.concatenate([one.batch_ms for one in own])
    rates = [1000 * size[0] / float(np.mean(one.batch_ms)) for one in own]
    of_first = [1000 * size[0] / float(np.mean(one.batch_ms)) for one in reference]
    return Cell(
        format=name,
        batch_size=size[0],
        side_px=size[1],
        images_per_second=float(np.median(rates)),
        median_ms=float(np.median(batches)),
        p95_ms=float(np.quantile(batches, 0.95)),
        p99_ms=float(np.quantile(batches, 0.99)),
        cpu_ms_per_image=float(np.median([one.cpu_ms / len(one.batch_ms) / size[0] for one in own])),
        speedup=float(np.median(np.array(rates) / np.array(of_first))),
        peak_memory_mb=float(np.median([found[name][1] for found in rounds])),
    )


def _say(results: BenchmarkResults, out: Path) -> None:
    rows = [
        [
            cell.format,
            cell.batch_size,
            cell.side_px,
            f"{cell.images_per_second:.1f}",
            *(f"{value:.1f}" for value in (cell.median_ms, cell.p95_ms, cell.p99_ms, cell.cpu_ms_per_image)),
            f"{cell.speedup:.2f}×",
            f"{cell.peak_memory_mb:.0f}",
        ]
        for cell in results.cells
    ]
    machine = results.machine
    title = f"{results.release} ({results.architecture}) on {machine.processor}, {machine.threads} threads"
    columns = ["format", "batch", "px", "images/s", "median ms", "p95", "p99", "CPU ms/image", "speedup", "memory MB"]
    table(title, columns, rows)
    say(f"results: {out}; memory is that of a process with this format alone")
