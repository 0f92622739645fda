"""The curves of a run, as far as its metrics and evaluations hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from launch.report.collect import RunData
from panendofm.records.evaluation import METRICS, KnnDocument, split_metric
from panendofm.records.metrics import TOTAL, losses_of
from panendofm.reports.charts import Series, line_chart


def curves_of(data: RunData) -> list[Markup]:
    chosen = float(data.selection.step) if data.selection and data.selection.step is not None else None
    parts = dict.fromkeys(name for line in data.metrics for name in losses_of(line) if name != TOTAL)
    # Evaluations have a chart for each set: their scores are not comparable.
    knn = [
        (f"kNN on {name} (band: 95% interval)" if len(data.sets) > 1 else "kNN (band: 95% interval)", documents)
        for name, documents in data.sets.items()
    ]
    wanted: list[tuple[str, Sequence[Series | None]]] = [
        ("Loss", [_metric(data, TOTAL)]),
        ("Parts of the loss", [_metric(data, name) for name in parts]),
        *((title, knn_series(documents, data.metric_of(documents[-1]))) for title, documents in knn),
        ("RankMe", [_metric(data, "collapse.rank_me", "training batch"), _rankme(data.evaluations)]),
        ("Learning rate", [_metric(data, "schedule.lr")]),
        ("Entropy of the targets", _section(data, "collapse", ("teacher_entropy", "prototype_entropy"))),
        ("Gradient norm", _section(data, "gradient_norm", ("backbone", "dino_head", "ibot_head"))),
        ("Images per second", [_metric(data, "speed.images_per_second")]),
        ("Share of time waiting for data", [_metric(data, "speed.data_wait_share")]),
        ("Memory, GB", [_metric(data, "speed.memory_gb")]),
    ]
    charts = []
    for title, candidates in wanted:
        series = [one for one in candidates if one is not None and one.x]
        if series:
            charts.append(line_chart(title, series, marked_x=chosen, logarithmic=title == "Gradient norm"))
    return charts


def _section(data: RunData, section: str, names: Sequence[str]) -> list[Series | None]:
    return [_metric(data, f"{section}.{name}") for name in names]


def _metric(data: RunData, path: str, name: str | None = None) -> Series | None:
    """A logged metric by its dotted name, such as speed.images_per_second."""
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


def _rankme(documents: Sequence[KnnDocument]) -> Series | None:
    if not documents:
        return None
    return Series("evaluation", [float(d.step or 0) for d in documents], [d.rankme for d in documents])


def knn_series(documents: Sequence[KnnDocument], name: str) -> list[Series]:
    """A metric with its interval, for every k that was evaluated."""
    metric = split_metric(name)[0]
    ks = sorted({int(k) for document in documents for k in document.k})
    found = []
    for k in ks if metric in METRICS else []:
        rows = [(d.step or 0, d.k[str(k)]) for d in documents if str(k) in d.k]
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
