"""Everything that a report tells, read from the run's folder. What is not there is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.jobs.record import events_of, jobs_of
from launch.progress import Progress, progress_of
from launch.status import JobState, states_of
from panendofm.records.evaluation import (
    DEFAULT_METRIC,
    METRICS,
    KnnDocument,
    SelectionDocument,
    picture_files,
    read_evaluations,
    read_selection,
    split_metric,
)
from panendofm.records.metrics import read_metrics
from panendofm.records.run import RunFolder, patch_pictures, read_checkpoint_info
from panendofm.records.shards import Certificate, Manifest, ShardFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text
from panendofm.runtime.yaml_files import parse_yaml


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
    run: RunFolder
    config: dict[str, Any]
    config_text: str
    metrics: list[dict[str, Any]]
    evaluations: list[KnnDocument]
    selection: SelectionDocument | None
    progress: Progress | None
    jobs: list[JobState]
    events: list[Event]
    certificate: Certificate | None
    manifest: Manifest | None
    pictures: list[Picture]
    galleries: list[tuple[str, Path]]  # name of the checkpoint and page


def collect(run: RunFolder) -> RunData:
    if not run.metrics.is_file():
        raise UserError(f"there is nothing to report on {run.path}: it has no {run.metrics.name}; train it first.")
    text = read_text(run.config) if run.config.is_file() else ""
    config = parse_yaml(text, str(run.config)) or {}
    if not isinstance(config, dict) or not isinstance(config.get("data", {}), dict):
        raise UserError(f"{run.config}: it is no config of a run; restore it.")
    metrics = read_metrics(run.metrics)
    jobs = jobs_of(run)
    shards = ShardFolder(Path(config.get("data", {}).get("shards", "")))
    return RunData(
        run=run,
        config=config,
        config_text=text,
        metrics=metrics,
        evaluations=[document for document in read_evaluations(run) if document.step is not None],
        selection=read_selection(run),
        progress=progress_of(run),
        jobs=states_of(jobs, glance=True),
        events=_events(run, metrics),
        certificate=_certificate(run),
        manifest=shards.read_manifest() if shards.manifest.is_file() else None,
        pictures=_pictures(run),
        galleries=picture_files(run, "gallery.html"),
    )


def _events(run: RunFolder, metrics: list[dict[str, Any]]) -> list[Event]:
    """What did not go by itself: starts, interruptions, roll-backs, skipped steps, unreadable samples."""
    found = []
    for folder in sorted(run.jobs.glob("*")):
        for event in events_of(folder):
            if event["event"] == "started":
                # Not on which nodes: a report is for others, and host names are not.
                text = f"{folder.name} started, job {event['job_id']}, {event['ranks']} processes"
            elif event["event"] == "cancelled":
                text = f"{folder.name} was cancelled"
            else:
                text = f"{folder.name} ended with exit code {event['exit_code']}: {event['verdict']}"
            found.append(Event(event["time"], None, text))
    for entry in run.read_rollbacks():
        text = f"went back to step {entry.to_step:,}, learning rate times {entry.lr_factor:g}: {entry.why}"
        found.append(Event(entry.time, entry.from_step, text))
    for line in metrics:
        if line.get("skipped"):
            found.append(Event(None, line["step"], "step skipped: loss or gradient was not finite"))
        if line.get("unreadable_samples"):
            found.append(Event(None, line["step"], f"{line['unreadable_samples']} unreadable samples replaced"))
    return sorted(found, key=lambda event: (event.time is None, event.time or 0, event.step or 0))


def _certificate(run: RunFolder) -> Certificate | None:
    for path in reversed(run.whole_checkpoints()):
        certificate = read_checkpoint_info(path).certificate
        if certificate is not None:
            return certificate
    return None


def _pictures(run: RunFolder) -> list[Picture]:
    patches = [
        Picture(f"Step {step:,}: frames, first three principal components of their patches, attention", path)
        for step, path in patch_pictures(run)
    ]
    titles = {"confusion": "Confusion matrix", "map": "Map of the features"}
    evaluated = [
        Picture(f"{titles[path.stem]} of {checkpoint}", path, has_small_text=True)
        for checkpoint, path in picture_files(run, "*.png")
        if path.stem in titles
    ]
    return patches + evaluated


def metric_series(data: RunData, path: str, name: str | None = None) -> Series | None:
    """A logged figure by its dotted name, such as speed.images_per_second."""
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
    metric = split_metric(data.selection.metric if data.selection is not None else DEFAULT_METRIC)[0]
    ks = sorted({int(k) for document in data.evaluations for k in document.k})
    found = []
    for k in ks if metric in METRICS else []:
        rows = [(d.step or 0, d.k[str(k)]) for d in data.evaluations if str(k) in d.k]
        intervals = [row.interval(metric) for _, row in rows]
        whole = all(intervals)
        found.append(
            Series(
                f"{metric}, k = {k}",
                [float(step) for step, _ in rows],
                [float(getattr(row, metric)) for _, row in rows],
                [pair[0] for pair in intervals if pair] if whole else [],
                [pair[1] for pair in intervals if pair] if whole else [],
            )
        )
    return found
