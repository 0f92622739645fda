"""Everything that a report tells, read from the run's folder. What is not there is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from launch.jobs import events_of, jobs_of, json_lines
from launch.progress import Progress, evaluations, progress_of, selection
from launch.status import JobState, states_of
from runtime.errors import UserError
from runtime.files import read_json


@dataclass(frozen=True)
class Series:
    """A curve: x and y, and for figures with an interval its bounds."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    time: float | None
    step: int | None
    text: str


@dataclass(frozen=True)
class Picture:
    title: str
    path: Path
    has_small_text: bool = False


@dataclass(frozen=True)
class RunData:
    run: Path
    config: dict[str, Any]
    config_text: str
    metrics: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    selection: dict[str, Any] | None
    progress: Progress | None
    jobs: list[JobState]
    events: list[Event]
    certificate: dict[str, Any] | None
    manifest: dict[str, Any] | None
    pictures: list[Picture]
    galleries: list[tuple[str, Path]]  # name of the checkpoint and page


def collect(run: Path) -> RunData:
    config_path, metrics_path = run / "config.yaml", run / "metrics.jsonl"
    if not metrics_path.is_file():
        raise UserError(f"there is nothing to report on {run}: it has no metrics.jsonl; train it first.")
    text = config_path.read_text(encoding="utf-8") if config_path.is_file() else ""
    config = yaml.safe_load(text) or {}
    metrics = list(json_lines(metrics_path))
    jobs = jobs_of(run)
    shards = Path(config.get("data", {}).get("shards", ""))
    return RunData(
        run=run,
        config=config,
        config_text=text,
        metrics=metrics,
        evaluations=evaluations(run),
        selection=selection(run),
        progress=progress_of(run),
        jobs=states_of(jobs),
        events=_events(run, metrics),
        certificate=_certificate(run),
        manifest=dict(read_json(shards / "manifest.json")) if (shards / "manifest.json").is_file() else None,
        pictures=_pictures(run),
        galleries=[(_checkpoint_of(path), path) for path in sorted(run.glob("eval/*_pictures/gallery.html"))],
    )


def _events(run: Path, metrics: list[dict[str, Any]]) -> list[Event]:
    """What did not go by itself: starts, interruptions, roll-backs, skipped steps, unreadable samples."""
    found = []
    for folder in sorted((run / "jobs").glob("*")):
        for event in events_of(folder):
            if event["event"] == "started":
                where = f"{event['ranks']} processes on {event['nodes']}"
                text = f"{folder.name} started, job {event['job_id']}, {where}"
            elif event["event"] == "cancelled":
                text = f"{folder.name} was cancelled"
            else:
                text = f"{folder.name} ended with exit code {event['exit_code']}: {event['verdict']}"
            found.append(Event(event["time"], None, text))
    roll_backs = run / "roll_backs.json"
    for entry in read_json(roll_backs)["roll_backs"] if roll_backs.is_file() else []:
        text = f"went back to step {entry['to_step']:,}, learning rate times {entry['lr_factor']:g}: {entry['why']}"
        found.append(Event(entry["time"], entry["from_step"], text))
    for line in metrics:
        if line.get("skipped"):
            found.append(Event(None, line["step"], "step skipped: loss or gradient was not finite"))
        if line.get("unreadable_samples"):
            found.append(Event(None, line["step"], f"{line['unreadable_samples']} unreadable samples replaced"))
    return sorted(found, key=lambda event: (event.time is None, event.time or 0, event.step or 0))


def _certificate(run: Path) -> dict[str, Any] | None:
    for path in sorted(run.glob("checkpoints/step_*/checkpoint.json"), reverse=True):
        certificate = read_json(path).get("certificate")
        if certificate is not None:
            return dict(certificate)
    return None


def _pictures(run: Path) -> list[Picture]:
    patches = [
        Picture(f"Step {_step_of(path):,}: frames, first three principal components of their patches, attention", path)
        for path in sorted(run.glob("pictures/patches_step_*.png"))
    ]
    titles = {"confusion": "Confusion matrix", "map": "Map of the features"}
    evaluated = [
        Picture(f"{titles[path.stem]} of {_checkpoint_of(path)}", path, has_small_text=True)
        for path in sorted(run.glob("eval/*_pictures/*.png"))
        if path.stem in titles
    ]
    return patches + evaluated


def _step_of(picture: Path) -> int:
    return int(picture.stem.rpartition("_")[2])


def _checkpoint_of(picture: Path) -> str:
    """From `eval/knn_step_0000300_pictures/map.png`."""
    return picture.parent.name.removeprefix("knn_").removesuffix("_pictures")


def metric_series(data: RunData, path: str, name: str | None = None) -> Series | None:
    """A figure of metrics.jsonl by its dotted name, such as speed.images_per_second."""
    points = []
    for line in data.metrics:
        value: Any = line
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            points.append((float(line["step"]), float(value)))
    if not any(value for _, value in points):  # none, or of a part that is switched off
        return None
    return Series(name or path.rpartition(".")[2], [p[0] for p in points], [p[1] for p in points])


def knn_series(data: RunData) -> list[Series]:
    """The metric that checkpoints are chosen by, with its interval, for every k that was evaluated."""
    metric = str((data.selection or {}).get("metric", "top1_k20")).rpartition("_k")[0]
    ks = sorted({int(k) for document in data.evaluations for k in document["k"]})
    found = []
    for k in ks:
        rows = [(d["step"], d["k"][str(k)]) for d in data.evaluations if str(k) in d["k"]]
        intervals = [row.get("intervals", {}).get(metric) for _, row in rows]
        whole = all(intervals)
        found.append(
            Series(
                f"{metric}, k = {k}",
                [float(step) for step, _ in rows],
                [float(row[metric]) for _, row in rows],
                [float(pair[0]) for pair in intervals if pair] if whole else [],
                [float(pair[1]) for pair in intervals if pair] if whole else [],
            )
        )
    return found
