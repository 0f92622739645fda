"""The page itself: what a run's template is given."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

from launch.report.collect import RunData, collect
from launch.report.curves import curves_of
from panendofm.records.documents import as_document
from panendofm.records.evaluation import KnnDocument, SelectionDocument, split_metric
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import Certificate, Manifest
from panendofm.reports import Table, render_page
from panendofm.reports.numbers import number
from panendofm.runtime.console import duration
from panendofm.runtime.files import write_text
from panendofm.runtime.names import without_folders

# Of a document that is shown as it is: a manifest of ten thousand shards would be most of the page.
_MOST_CHARACTERS = 200_000


def write_report(run: Path | str) -> Path:
    """Write the report into the run's folder and return its path."""
    folder = RunFolder(Path(run))
    write_text(folder.report, page_of(collect(folder)))
    return folder.report


def page_of(data: RunData) -> str:
    return render_page(
        "launch.report",
        "run.html",
        title=data.run.path.resolve().name,
        model=data.config.get("model", {}).get("name", ""),
        written=time.strftime("%Y-%m-%d %H:%M"),
        cards=_cards(data),
        **_selection(data),
        curves=curves_of(data),
        images=data.images,
        galleries=[(checkpoint, path.read_text(encoding="utf-8")) for checkpoint, path in data.galleries],
        **_data(data),
        jobs=_jobs(data),
        events=_events(data),
        config_name=data.run.config.name,
        config=without_folders(data.config_text),
    )


def _cards(data: RunData) -> list[tuple[str, str]]:
    """(value, label) of what is looked for first."""
    cards: list[tuple[str, str]] = []
    progress = data.progress
    if progress is not None:
        total = f" of {progress.total_steps:,}" if progress.total_steps else ""
        cards.append((f"{progress.step:,}{total}", "steps"))
        images = progress.step * int(data.config.get("batch", {}).get("images", 0))
        cards.append((f"{images:,}", "images seen"))
        cards.append((f"{progress.images_per_second:.1f}", "images/s at last"))
        if progress.seconds_left:
            cards.append((duration(progress.seconds_left), "left"))
        if progress.best_knn is not None:
            cards.append((f"{100 * progress.best_knn:.1f}%", f"{progress.metric} of the chosen checkpoint"))
    cards.append((str(sum(state.requeues for state in data.jobs)), "requeues"))
    return cards


def _selection(data: RunData) -> dict[str, object]:
    chosen = data.selection
    # A run that has done all its steps has nothing to go on with.
    done = data.progress is not None and data.progress.step >= (data.progress.total_steps or math.inf)
    advice = "" if chosen is None else "Stop: " if chosen.stop else "" if done else "Go on: "
    rows = [] if chosen is None else [[other.checkpoint, other.verdict] for other in chosen.comparisons]
    vetoed = {} if chosen is None else chosen.vetoed
    return {
        "selection": chosen,
        "gain": "" if chosen is None else _gain(data, chosen),
        "advice": advice,
        "comparisons": Table(["compared with", "verdict"], rows, numeric=False),
        "vetoed": Table(["not chosen", "why"], list(vetoed.items()), numeric=False),
        "sets": _sets(data),
    }


def _gain(data: RunData, chosen: SelectionDocument) -> str:
    """What the training was worth, in one sentence."""
    against = chosen.against_start.get(chosen.checkpoint)
    if against is None:
        return ""
    values = {document.checkpoint: document.values[chosen.metric] for document in data.evaluations}
    start, now = values[step_name(0)], values[chosen.checkpoint]
    kind, k = split_metric(chosen.metric)
    metric = f"kNN {kind}" + (f" at k = {k}" if k is not None else "")
    change = f"{against.difference:+.3f}, interval {against.low:+.3f} to {against.high:+.3f}"
    return f"{metric} went from {start:.3f} at the start to {now:.3f}: {against.verdict} ({change})."


def _sets(data: RunData) -> Table:
    """What every set says of the chosen checkpoint, where there are several."""
    columns = ["set", "role", "metric", "at the start", "chosen checkpoint", "last"]
    rows = [
        [name, _role(documents[-1], index), *_scores(data, documents)]
        for index, (name, documents) in enumerate(data.sets.items())
    ]
    return Table(columns, rows if len(rows) > 1 else [], numeric=False)


def _role(document: KnnDocument, index: int) -> str:
    if index == 0:
        return "selects"
    return "is shown" if document.veto is None else f"vetoes a fall of more than {document.veto.margin:g}"


def _scores(data: RunData, documents: list[KnnDocument]) -> list[str]:
    metric = data.metric_of(documents[-1])
    values = {document.step: document.values.get(metric) for document in documents}
    chosen = data.selection.step if data.selection is not None else None
    return [metric, number(values.get(0)), number(values.get(chosen)), number(documents[-1].values.get(metric))]


def _data(data: RunData) -> dict[str, object]:
    sentences = []
    if data.evaluations:
        note = data.evaluations[-1].leakage.note
        if note:
            sentences.append(without_folders(note[0].upper() + note[1:]))
    for documents in data.sets.values():
        described = documents[-1].data
        sentences.append(
            f"Evaluated on {without_folders(described.path)}: {described.gallery:,} gallery images, "
            f"{described.queries:,} queries, {len(described.classes)} classes."
        )
    certificate = data.certificate or Certificate()
    guarded = [[one.name, f"{one.images:,}", f"{one.frames_dropped:,}"] for one in certificate.guarded_sets]
    if guarded:
        sentences.append(
            f"{certificate.frames_checked:,} frames were compared with every image that is kept for evaluation."
        )
    shown = (("Leakage certificate", data.certificate), ("Manifest of the shards", data.manifest))
    return {
        "data_sentences": sentences,
        "guarded": Table(["kept for evaluation", "images", "frames dropped for it"], guarded),
        "corpora": _corpora(data.manifest),
        "documents": [
            (name, json.dumps(as_document(content), indent=2)[:_MOST_CHARACTERS])
            for name, content in shown
            if content is not None
        ],
    }


def _corpora(manifest: Manifest | None) -> Table:
    rows = []
    for name, corpus in sorted((manifest.corpora if manifest is not None else {}).items()):
        reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in corpus.dropped.items())
        numbers = [f"{count:,}" for count in (corpus.sources, corpus.seen, corpus.kept, corpus.broken_files)]
        rows.append([name, *numbers, reasons])
    columns = ["corpus", "sources", "frames seen", "kept", "broken files", "frames dropped"]
    return Table(columns, rows, numeric=False)


def _jobs(data: RunData) -> Table:
    rows = [
        [state.stage, state.job_id or "", state.state.lower(), state.requeues, without_folders(state.last_error or "")]
        for state in data.jobs
    ]
    return Table(["stage", "job", "state", "requeues", "last error"], rows, numeric=False)


def _events(data: RunData) -> Table:
    rows = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)) if event.time is not None else "",
            f"{event.step:,}" if event.step is not None else "",
            without_folders(event.text),
        ]
        for event in data.events
    ]
    return Table(["time", "step", "event"], rows, numeric=False)
