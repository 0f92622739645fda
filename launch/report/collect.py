"""Everything that a report tells, read from the run's folder. What is not there is left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.jobs.record import events_of, jobs_of
from launch.progress import Progress, progress_of
from launch.status import JobState, states_of
from panendofm.records.evaluation import (
    DEFAULT_METRIC,
    KnnDocument,
    SelectionDocument,
    image_files,
    read_evaluations,
    read_selection,
    witnesses_of,
)
from panendofm.records.metrics import StepMetrics, read_metrics
from panendofm.records.run import RunFolder, patch_images, read_checkpoint_info
from panendofm.records.shards import Certificate, Manifest, ShardFolder
from panendofm.reports import data_url
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_text
from panendofm.runtime.yaml_files import parse_yaml


@dataclass(frozen=True)
class Event:
    time: float | None
    step: int | None
    text: str


@dataclass(frozen=True)
class RunImage:
    title: str
    path: Path
    has_small_text: bool = False  # keeps its width on a phone and is moved with a finger

    @property
    def url(self) -> str:
        return data_url(self.path.read_bytes())


@dataclass(frozen=True)
class RunData:
    run: RunFolder
    config: dict[str, Any]
    config_text: str
    metrics: list[StepMetrics]
    sets: dict[str, list[KnnDocument]]  # the one that selects first; empty where nothing was evaluated
    selection: SelectionDocument | None
    progress: Progress | None
    jobs: list[JobState]
    events: list[Event]
    certificate: Certificate | None
    manifest: Manifest | None
    images: list[RunImage]
    galleries: list[tuple[str, Path]]  # name of the checkpoint and page

    @property
    def evaluations(self) -> list[KnnDocument]:
        """On the set that selects."""
        return next(iter(self.sets.values()), [])

    def metric_of(self, document: KnnDocument) -> str:
        """The metric that a set is read by: that of its veto, else the one that selects."""
        if document.veto is not None:
            return document.veto.metric
        selecting = self.selection.metric if self.selection is not None else DEFAULT_METRIC
        return selecting if selecting in document.values else next(iter(document.values))


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
        sets=_sets(run),
        selection=read_selection(run),
        progress=progress_of(run),
        jobs=states_of(jobs, glance=True),
        events=_events(run, metrics),
        certificate=_certificate(run),
        manifest=shards.read_manifest() if shards.manifest.is_file() else None,
        images=_images(run),
        galleries=image_files(run, "gallery.html"),
    )


def _sets(run: RunFolder) -> dict[str, list[KnnDocument]]:
    """Evaluations of the run's checkpoints by the name of the set; one that has no name is called as its folder is."""
    found = {}
    for witness in (None, *witnesses_of(run)):
        documents = [document for document in read_evaluations(run, witness) if document.step is not None]
        if documents:
            name = documents[-1].evaluation_set or documents[-1].data.path
            found[f"{name} (witness)" if name in found else name] = documents
    return found


def _events(run: RunFolder, metrics: list[StepMetrics]) -> list[Event]:
    """What did not go by itself: starts, interruptions, rollbacks, skipped steps, unreadable samples."""
    found = []
    for folder in sorted(run.jobs.glob("*")):
        for event in events_of(folder):
            if event.event == "started":
                # Not on which nodes: a report is for others, and host names are not.
                text = f"{folder.name} started, job {event.job_id}, {event.ranks} processes"
            elif event.event == "cancelled":
                text = f"{folder.name} was cancelled"
            else:
                text = f"{folder.name} ended with exit code {event.exit_code}: {event.verdict}"
            found.append(Event(event.time, None, text))
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


def _images(run: RunFolder) -> list[RunImage]:
    patches = [
        RunImage(f"Step {step:,}: frames, first three principal components of their patches, attention", path)
        for step, path in patch_images(run)
    ]
    titles = {"confusion": "Confusion matrix", "map": "Map of the features"}
    evaluated = [
        RunImage(f"{titles[path.stem]} of {checkpoint}", path, has_small_text=True)
        for checkpoint, path in image_files(run, "*.png")
        if path.stem in titles
    ]
    return patches + evaluated
