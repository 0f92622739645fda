"""How far a training run is, from the files in its directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.jobs import json_lines
from runtime.files import read_json

# What a run says before its first step; the length in steps is not known from the config alone ("2 data epochs").
_TOTAL_STEPS = re.compile(r"([\d,]+) steps of [\d,]+ images")
# Logged steps over which the speed is averaged.
_RECENT = 10
DEFAULT_METRIC = "top1_k20"


@dataclass(frozen=True)
class Progress:
    step: int
    total_steps: int | None = None
    images_per_second: float | None = None
    seconds_left: float | None = None
    metric: str = DEFAULT_METRIC
    last_knn: float | None = None
    best_knn: float | None = None


def progress_of(run: Path) -> Progress | None:
    """None for a run that has not trained a step."""
    path = run / "metrics.jsonl"
    lines = [line for line in json_lines(path) if "speed" in line] if path.is_file() else []
    if not lines:
        return None
    # Not every step is logged: the newest checkpoint may be further on.
    saved = [int(path.name.removeprefix("step_")) for path in run.glob("checkpoints/step_*")]
    step, total = max([int(lines[-1]["step"]) + 1, *saved]), total_steps(run)
    recent = [line["speed"] for line in lines[-_RECENT:]]
    step_seconds = sum(speed["step_seconds"] for speed in recent) / len(recent)
    metric, values = knn_values(run)
    chosen = selected_checkpoint(run)
    return Progress(
        step=step,
        total_steps=total,
        images_per_second=sum(speed["images_per_second"] for speed in recent) / len(recent),
        seconds_left=(total - step) * step_seconds if total is not None else None,
        metric=metric,
        last_knn=values[-1][2] if values else None,
        best_knn=next((value for name, _, value in values if name == chosen), None),
    )


def total_steps(run: Path) -> int | None:
    """From the run's own log: the last time that it introduced itself."""
    path = run / "log.txt"
    found = _TOTAL_STEPS.findall(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else []
    return int(found[-1].replace(",", "")) if found else None


def evaluations(run: Path) -> list[dict[str, Any]]:
    """The kNN results of the run's checkpoints, in the order of training."""
    paths = [path for path in (run / "eval").glob("knn_*.json") if path.name != "knn_selection.json"]
    documents = [document for document in map(read_json, paths) if document.get("step") is not None]
    return sorted(documents, key=lambda document: int(document["step"]))


def selection(run: Path) -> dict[str, Any] | None:
    path = run / "eval" / "knn_selection.json"
    return dict(read_json(path)) if path.is_file() else None


def selected_checkpoint(run: Path) -> str | None:
    chosen = selection(run)
    return str(chosen["checkpoint"]) if chosen else None


def knn_values(run: Path) -> tuple[str, list[tuple[str, int, float]]]:
    """The metric that checkpoints are chosen by, and (checkpoint, step, value) of every evaluation."""
    metric = str((selection(run) or {}).get("metric", DEFAULT_METRIC))
    name, _, k = metric.rpartition("_k")
    values = []
    for document in evaluations(run):
        at_k = document["k"].get(k, {})
        if name in at_k:
            values.append((str(document["checkpoint"]), int(document["step"]), float(at_k[name])))
    return metric, values
