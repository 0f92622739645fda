"""How far a training run is, from the files in its directory."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from panendofm.records.evaluation import DEFAULT_METRIC, read_evaluations, read_selection
from panendofm.records.metrics import read_metrics
from panendofm.records.run import RunFolder

# Logged steps over which the speed is averaged.
_RECENT = 10


@dataclass(frozen=True)
class Progress:
    step: int
    total_steps: int | None = None
    images_per_second: float | None = None
    seconds_left: float | None = None
    metric: str = DEFAULT_METRIC
    last_knn: float | None = None
    best_knn: float | None = None


def progress_of(run: RunFolder) -> Progress | None:
    """None for a run that has not trained a step."""
    lines = [line for line in read_metrics(run.metrics) if "speed" in line] if run.metrics.is_file() else []
    if not lines:
        return None
    info = run.read_info()
    total = info.total_steps if info is not None else None
    # Not every step is logged: the newest checkpoint may be further on.
    step = max([int(lines[-1]["step"]) + 1, *run.steps()])
    recent = [line["speed"] for line in lines[-_RECENT:]]
    # The first steps wait for workers and compilation: they say nothing of those to come.
    usual = [line["speed"]["step_seconds"] for line in lines[1:][-_RECENT:]]
    selection = read_selection(run)
    metric = selection.metric if selection is not None else DEFAULT_METRIC
    values = {d.checkpoint: d.values.get(metric) for d in read_evaluations(run) if d.step is not None}
    return Progress(
        step=step,
        total_steps=total,
        images_per_second=sum(speed["images_per_second"] for speed in recent) / len(recent),
        seconds_left=(total - step) * median(usual) if total is not None and usual else None,
        metric=metric,
        last_knn=list(values.values())[-1] if values else None,
        best_knn=values.get(selection.checkpoint) if selection is not None else None,
    )
