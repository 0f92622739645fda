"""The page itself."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

from launch.report.charts import chart
from launch.report.collect import Picture, RunData, Series, collect, knn_series, metric_series
from panendofm.records.documents import as_document
from panendofm.records.evaluation import SelectionDocument, split_metric
from panendofm.records.run import RunFolder, step_name
from panendofm.records.shards import Certificate, Manifest
from panendofm.reports import pages
from panendofm.reports.pages import details, section, table, text
from panendofm.runtime.console import duration
from panendofm.runtime.files import write_text
from panendofm.runtime.names import without_folders

_STYLE = """
.cards, .charts, .pictures { display: grid; gap: 0.75rem; }
.cards { grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin-top: 1rem; }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
.pictures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); }
.pictures { align-items: start; }
.pictures div { overflow-x: auto; }
.pictures .wide img { min-width: 34rem; }
.card b { display: block; font-size: 1.3rem; overflow-wrap: anywhere; }
.card span { color: #666; font-size: 0.85rem; }
figure svg, figure img { width: 100%; height: auto; display: block; }
iframe { width: 100%; height: 40rem; border: 1px solid #e3e3e3; border-radius: 8px; background: #fff; }
""".strip()


def write_report(run: Path | str) -> Path:
    """Write the report into the run's folder and return its path."""
    folder = RunFolder(Path(run))
    write_text(folder.report, page_of(collect(folder)))
    return folder.report


def page_of(data: RunData) -> str:
    name = data.run.path.resolve().name
    config = f"<pre>{text(without_folders(data.config_text))}</pre>"
    sections = [
        _head(data, name),
        section("Selection", _selection(data)),
        section("Curves", _curves(data)),
        section("What the features see", _pictures(data)),
        section("Nearest neighbours", _galleries(data)),
        section("Data and leakage", _data(data)),
        section("Jobs and events", _events(data)),
        section("Configuration", details(data.run.config.name, config)),
    ]
    return pages.page(name, "\n".join(part for part in sections if part), _STYLE)


def _head(data: RunData, name: str) -> str:
    progress, model = data.progress, data.config.get("model", {}).get("name", "")
    cards: list[tuple[str, str]] = []
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
    written = time.strftime("%Y-%m-%d %H:%M")
    boxes = "".join(f'<div class="card"><b>{text(value)}</b><span>{text(label)}</span></div>' for value, label in cards)
    title = f'<h1>{text(name)}</h1><p class="quiet">{text(model)}, report of {written}</p>'
    return f'{title}<div class="cards">{boxes}</div>'


def _selection(data: RunData) -> str:
    if data.selection is None:
        return "" if data.evaluations else '<p class="quiet">No checkpoint has been evaluated.</p>'
    chosen = data.selection
    body = f"{_gain(data, chosen)}<p><b>{text(chosen.checkpoint)}</b>: {text(chosen.why)}</p>"
    if chosen.stop_why:
        # A run that has done all its steps has nothing to go on with.
        done = data.progress is not None and data.progress.step >= (data.progress.total_steps or math.inf)
        advice = "Stop: " if chosen.stop else "" if done else "Go on: "
        body += f"<p>{advice}{text(chosen.stop_why)}</p>"
    rows = [[str(item.get("checkpoint", item.get("other", ""))), str(item["verdict"])] for item in chosen.comparisons]
    return body + (table(["compared with", "verdict"], rows) if any(row[0] for row in rows) else "")


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
    return f"<p>{metric} went from {start:.3f} at the start to {now:.3f}: {against.verdict} ({change}).</p>"


def _curves(data: RunData) -> str:
    chosen = float(data.selection.step) if data.selection and data.selection.step is not None else None
    rank_me = [
        metric_series(data, "collapse.rank_me", "training batch"),
        Series("evaluation", [float(d.step or 0) for d in data.evaluations], [d.rankme for d in data.evaluations])
        if data.evaluations
        else None,
    ]
    parts = ("dino_local", "dino_global", "ibot", "koleo", "gram", "features")
    heads = ("backbone", "dino_head", "ibot_head")
    entropies = ("teacher_entropy", "prototype_entropy")
    wanted: list[tuple[str, list[Series | None], bool]] = [
        ("Loss", [metric_series(data, "total")], False),
        ("Parts of the loss", [metric_series(data, name) for name in parts], False),
        ("kNN (band: 95% interval)", [*knn_series(data)], False),
        ("RankMe", rank_me, False),
        ("Learning rate", [metric_series(data, "schedule.lr")], False),
        ("Entropy of the targets", [metric_series(data, f"collapse.{name}") for name in entropies], False),
        ("Gradient norm", [metric_series(data, f"gradient_norm.{name}") for name in heads], True),
        ("Images per second", [metric_series(data, "speed.images_per_second")], False),
        ("Share of time waiting for data", [metric_series(data, "speed.data_wait_share")], False),
        ("Memory, GB", [metric_series(data, "speed.memory_gb")], False),
    ]
    figures = []
    for title, candidates, logarithmic in wanted:
        series = [one for one in candidates if one is not None and one.x]
        if series:
            figures.append(f"<figure>{chart(title, series, chosen, logarithmic)}</figure>")
    note = f'<p class="quiet">Dashed: step {chosen:,.0f}, the chosen checkpoint.</p>' if chosen is not None else ""
    return f'<div class="charts">{"".join(figures)}</div>{note}'


def _pictures(data: RunData) -> str:
    return f'<div class="pictures">{"".join(map(_figure, data.pictures))}</div>' if data.pictures else ""


def _figure(picture: Picture) -> str:
    """One with much small text keeps its width on a phone and is moved with a finger."""
    image = f'<img alt="{text(picture.title)}" src="{pages.data_url(picture.path.read_bytes())}">'
    kind = ' class="wide"' if picture.has_small_text else ""
    return f"<figure><div{kind}>{image}</div><figcaption>{text(picture.title)}</figcaption></figure>"


def _galleries(data: RunData) -> str:
    return "".join(
        f'<iframe title="Neighbours in {text(name)}" srcdoc="{text(path.read_text(encoding="utf-8"))}"></iframe>'
        for name, path in data.galleries
    )


def _data(data: RunData) -> str:
    parts = []
    note = data.evaluations[-1].leakage.note if data.evaluations else None
    if note:
        parts.append(f"<p>{text(without_folders(note[0].upper() + note[1:]))}</p>")
    if data.evaluations:
        described = data.evaluations[-1].data
        parts.append(
            f"<p>Evaluated on {text(without_folders(described.path))}: {described.gallery:,} gallery images, "
            f"{described.queries:,} queries, {len(described.classes)} classes.</p>"
        )
    parts += [_leakage(data.certificate or Certificate()), _corpora(data.manifest)]
    for title, content in (("Leakage certificate", data.certificate), ("Manifest of the shards", data.manifest)):
        if content is not None:
            parts.append(details(title, f"<pre>{text(json.dumps(as_document(content), indent=2)[:200_000])}</pre>"))
    return "".join(parts)


def _leakage(certificate: Certificate) -> str:
    rows = [
        [guarded.name, f"{guarded.images:,}", f"{guarded.frames_dropped:,}"] for guarded in certificate.guarded_sets
    ]
    if not rows:
        return ""
    checked = (
        f"<p>{certificate.frames_checked:,} frames were compared with every image that is kept for evaluation.</p>"
    )
    return checked + table(["kept for evaluation", "images", "frames dropped for it"], rows)


def _corpora(manifest: Manifest | None) -> str:
    rows = []
    for name, corpus in sorted((manifest.corpora if manifest is not None else {}).items()):
        reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in corpus["dropped"].items())
        numbers = [f"{corpus[key]:,}" for key in ("sources", "seen", "kept", "broken_files")]
        rows.append([name, *numbers, reasons])
    return table(["corpus", "sources", "frames seen", "kept", "broken files", "frames dropped"], rows) if rows else ""


def _events(data: RunData) -> str:
    parts = []
    if data.jobs:
        rows = [
            [
                state.stage,
                state.job_id or "",
                state.state.lower(),
                str(state.requeues),
                without_folders(state.last_error or ""),
            ]
            for state in data.jobs
        ]
        parts.append(table(["stage", "job", "state", "requeues", "last error"], rows))
    if data.events:
        rows = [
            [
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)) if event.time is not None else "",
                f"{event.step:,}" if event.step is not None else "",
                without_folders(event.text),
            ]
            for event in data.events
        ]
        parts.append(table(["time", "step", "event"], rows))
    return "".join(parts) or '<p class="quiet">Not launched as a job; no step was skipped.</p>'
