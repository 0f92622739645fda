"""The verb `time`: each picture alone, from file to label, and the network alone; three repeats and their spread."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from panendofm.linear_probe.heads.head_run import HeadRun, open_head, picture_files
from panendofm.linear_probe.inference.predict import Line, answer_rows, as_csv, exclusive_head
from panendofm.runtime.console import say, table
from panendofm.runtime.files import write_json, write_text
from panendofm.runtime.machine import processor_name
from panendofm.scoring.statistics.speed import Speed, speed_of

FORMAT = 1


def time_head(
    head_path: Path,
    images: list[str],
    weights: str | None,
    out: Path,
    device: str = "cpu",
    repeats: int = 3,
    root: Path | None = None,
) -> dict[str, Any]:
    """Write a submission whose times include decoding, and OUT with .timing.json: both times and what was used."""
    run = open_head(head_path, weights, device)
    exclusive_head(run.head, head_path)
    files = picture_files(images)
    paths = [root / file if root else file for file in files]
    run.answer(run.prepare([paths[0]]))  # the first pass sets things up
    whole, alone = [], []
    rows: list[Line] = []
    for _ in range(repeats):
        ends, inner, rows = _pass(run, files, paths)
        whole.append(ends)
        alone.append(inner)
    middle = int(np.argsort([w.mean() for w in whole])[len(whole) // 2])
    rows = [(*row[:3], f"{whole[middle][i]:.3f}") for i, row in enumerate(rows)]
    write_text(out, as_csv(rows))
    document = {
        "format": FORMAT,
        "pictures": len(files),
        "repeats": repeats,
        "with_decoding": _figures(whole),
        "network_alone": _figures(alone),
        "peak_memory_mb": peak_memory_mb(run.device),
        "device": device_name(run.device),
        "threads": torch.get_num_threads(),
        "architecture": run.network.architecture,
        "weights_sha256": run.network.weights_sha256,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    write_json(out.with_suffix(".timing.json"), document)
    _say(document, out)
    return document


def _pass(run: HeadRun, files: Sequence[Path], paths: Sequence[Path]) -> tuple[Any, Any, list[Line]]:
    ends, inner, rows = [], [], []
    for file, path in zip(files, paths, strict=True):
        began = time.perf_counter()
        batch = run.prepare([path])
        read = time.perf_counter()
        answer = run.answer(batch)[0]  # on the CPU: it waits for the device
        done = time.perf_counter()
        ends.append(1000 * (done - began))
        inner.append(1000 * (done - read))
        rows += answer_rows(run.head, str(file), answer, ends[-1])
    return np.array(ends), np.array(inner), rows


def _figures(repeats: Sequence[Any]) -> dict[str, Any]:
    """Of the middle repeat; the spread is that of the repeats' means."""
    speeds: list[Speed] = sorted((speed_of(times) for times in repeats), key=lambda s: s.mean_ms)
    middle = speeds[len(speeds) // 2]
    return {
        **asdict(middle),
        "real_time": middle.real_time(),
        "mean_ms_of_repeats": [s.mean_ms for s in speeds],
        "spread": (speeds[-1].mean_ms - speeds[0].mean_ms) / middle.mean_ms,
    }


def peak_memory_mb(device: torch.device) -> float:
    """Of this process so far, or of the GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()


def _say(document: dict[str, Any], out: Path) -> None:
    rows = []
    for name in ("with_decoding", "network_alone"):
        f = document[name]
        values = [f"{f[k]:.2f}" for k in ("mean_ms", "median_ms", "p95_ms", "fps")]
        rows.append([name.replace("_", " "), *values, f"{f['spread']:.0%}"])
    title = f"{document['pictures']} pictures one by one on {document['device']}, {document['threads']} threads"
    table(title, ["milliseconds", "mean", "median", "p95", "pictures/s", "spread"], rows)
    say(f"peak memory {document['peak_memory_mb']:.0f} MB; submission: {out}; {out.with_suffix('.timing.json').name}")
