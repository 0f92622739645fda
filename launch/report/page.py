"""The page itself."""

from __future__ import annotations

import base64
import html
import json
import time
from pathlib import Path
from typing import Any

from launch.report.charts import chart
from launch.report.collect import Picture, RunData, Series, collect, knn_series, metric_series
from runtime.console import duration
from runtime.files import write_text

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fafafa; margin: 0; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0.5rem 0 0; font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.5rem; font-size: 1.2rem; }
.quiet { color: #666; }
.cards, .charts, .pictures { display: grid; gap: 0.75rem; }
.cards { grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); margin-top: 1rem; }
.charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
.pictures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); }
.pictures { align-items: start; }
.pictures div { overflow-x: auto; }
.pictures .wide img { min-width: 34rem; }
.scroll + .scroll { margin-top: 1rem; }
.card, figure { background: #fff; border: 1px solid #e3e3e3; border-radius: 8px; padding: 0.75rem; margin: 0; }
.card b { display: block; font-size: 1.3rem; overflow-wrap: anywhere; }
.card span { color: #666; font-size: 0.85rem; }
figure svg, figure img { width: 100%; height: auto; display: block; }
figcaption { color: #666; font-size: 0.85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
td, th { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #eee; vertical-align: top; }
pre { background: #fff; border: 1px solid #e3e3e3; border-radius: 8px; padding: 0.75rem; overflow-x: auto; }
pre { font-size: 0.8rem; }
iframe { width: 100%; height: 40rem; border: 1px solid #e3e3e3; border-radius: 8px; background: #fff; }
""".strip()


def write_report(run: Path | str) -> Path:
    """Write `report.html` into the run's folder and return its path."""
    run = Path(run)
    path = run / "report.html"
    write_text(path, page_of(collect(run)))
    return path


def page_of(data: RunData) -> str:
    name = data.run.resolve().name
    sections = [
        _head(data, name),
        _section("Selection", _selection(data)),
        _section("Curves", _curves(data)),
        _section("What the features see", _pictures(data)),
        _section("Nearest neighbours", _galleries(data)),
        _section("Data and leakage", _data(data)),
        _section("Jobs and events", _events(data)),
        _section("Configuration", _details("config.yaml", f"<pre>{_text(data.config_text)}</pre>")),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{_text(name)}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


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
    boxes = "".join(
        f'<div class="card"><b>{_text(value)}</b><span>{_text(label)}</span></div>' for value, label in cards
    )
    title = f'<h1>{_text(name)}</h1><p class="quiet">{_text(model)}, report of {written}</p>'
    return f'{title}<div class="cards">{boxes}</div>'


def _selection(data: RunData) -> str:
    if data.selection is None:
        return "" if data.evaluations else '<p class="quiet">No checkpoint has been evaluated.</p>'
    chosen = data.selection
    text = f"<p><b>{_text(chosen['checkpoint'])}</b>: {_text(chosen['why'])}</p>"
    if chosen.get("stop_why"):
        text += f"<p>{'Stop' if chosen['stop'] else 'Go on'}: {_text(chosen['stop_why'])}</p>"
    rows = [
        [str(item.get("checkpoint", item.get("other", ""))), str(item["verdict"])] for item in chosen["comparisons"]
    ]
    return text + (_table(["compared with", "verdict"], rows) if any(row[0] for row in rows) else "")


def _curves(data: RunData) -> str:
    chosen = float(data.selection["step"]) if data.selection and data.selection.get("step") is not None else None
    rank_me = [
        metric_series(data, "collapse.rank_me", "training batch"),
        Series("evaluation", [float(d["step"]) for d in data.evaluations], [d["rankme"] for d in data.evaluations])
        if data.evaluations
        else None,
    ]
    parts = ("dino_local", "dino_global", "ibot", "koleo", "gram")
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
    image = f'<img alt="{_text(picture.title)}" src="{_data_url(picture.path)}">'
    kind = ' class="wide"' if picture.has_small_text else ""
    return f"<figure><div{kind}>{image}</div><figcaption>{_text(picture.title)}</figcaption></figure>"


def _galleries(data: RunData) -> str:
    return "".join(
        f'<iframe title="Neighbours in {_text(name)}" srcdoc="{_text(path.read_text(encoding="utf-8"))}"></iframe>'
        for name, path in data.galleries
    )


def _data(data: RunData) -> str:
    parts = []
    note = next((d["leakage"]["note"] for d in reversed(data.evaluations) if d.get("leakage")), None)
    if note:
        parts.append(f"<p>{_text(note[0].upper() + note[1:])}</p>")
    if data.evaluations:
        described = data.evaluations[-1]["data"]
        parts.append(
            f"<p>Evaluated on {_text(described['path'])}: {described['gallery']:,} gallery images, "
            f"{described['queries']:,} queries, {len(described['classes'])} classes.</p>"
        )
    parts += [_leakage(data.certificate or {}), _corpora(data.manifest or {})]
    for title, content in (("Leakage certificate", data.certificate), ("Manifest of the shards", data.manifest)):
        if content is not None:
            parts.append(_details(title, f"<pre>{_text(json.dumps(content, indent=2)[:200_000])}</pre>"))
    return "".join(parts)


def _leakage(certificate: dict[str, Any]) -> str:
    rows = [
        [str(guarded["name"]), f"{guarded['images']:,}", f"{guarded['frames_dropped']:,}"]
        for guarded in certificate.get("guarded_sets", [])
    ]
    if not rows:
        return ""
    checked = (
        f"<p>{certificate['frames_checked']:,} frames were compared with every image that is kept for evaluation.</p>"
    )
    return checked + _table(["kept for evaluation", "images", "frames dropped for it"], rows)


def _corpora(manifest: dict[str, Any]) -> str:
    rows = []
    for name, corpus in sorted(manifest.get("corpora", {}).items()):
        reasons = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in corpus["dropped"].items())
        numbers = [f"{corpus[key]:,}" for key in ("sources", "seen", "kept", "broken_files")]
        rows.append([name, *numbers, reasons])
    return _table(["corpus", "sources", "frames seen", "kept", "broken files", "frames dropped"], rows) if rows else ""


def _events(data: RunData) -> str:
    parts = []
    if data.jobs:
        rows = [
            [state.stage, state.job_id or "", state.state.lower(), str(state.requeues), state.last_error or ""]
            for state in data.jobs
        ]
        parts.append(_table(["stage", "job", "state", "requeues", "last error"], rows))
    if data.events:
        rows = [
            [
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)) if event.time is not None else "",
                f"{event.step:,}" if event.step is not None else "",
                event.text,
            ]
            for event in data.events
        ]
        parts.append(_table(["time", "step", "event"], rows))
    return "".join(parts) or '<p class="quiet">Not launched as a job; no step was skipped.</p>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{body}</section>" if body else ""


def _details(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _data_url(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
