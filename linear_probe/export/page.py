"""One HTML page that needs no other file and no network."""

from __future__ import annotations

import base64
from html import escape

from linear_probe.export.tables import main_table
from linear_probe.run import Benchmark
from scoring.intervals import with_interval

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1a2230; }
table { border-collapse: collapse; margin: 1rem 0; } .wide { overflow-x: auto; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #d5dbe3; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: pre; } td.best { font-weight: 700; }
img { max-width: 100%; height: auto; } .note { color: #5a6675; }
"""


def page(benchmark: Benchmark, pictures: dict[str, bytes]) -> str:
    """`pictures` by file name (roc_TASK….png, confusion_TASK….png)."""
    parts = ["<h1>PanEndoX linear probe</h1>", f"<p>Protocol: {escape(benchmark.protocol)}. ", _split_line(benchmark)]
    head, rows, best = main_table(benchmark)
    parts += ["<h2>Macro-AUC with 95% intervals over groups</h2>", _table(head, rows, best)]
    parts += [f'<p class="note">Not evaluable: {escape(n)} ({escape(w)}).</p>' for n, w in benchmark.skipped.items()]
    parts += ["<h2>Networks</h2>", _models(benchmark)]
    if benchmark.paired:
        tests = [
            [t["task"], f"{t['a']} − {t['b']}", f"{t['difference']:+.3f}", f"{t['p']:.3g}", f"{t['p_corrected']:.3g}"]
            for t in benchmark.paired
        ]
        parts += [
            "<h2>Paired tests</h2>",
            _table(["task", "networks", "difference", "p", "p, corrected over tasks (Holm)"], tests),
        ]
    for task in benchmark.tasks:
        parts += [f"<h2>{escape(task.title)}</h2>", _summary(benchmark, task.name), _classes(benchmark, task.name)]
        for name, content in pictures.items():
            if name.removeprefix("roc_").removeprefix("confusion_").split(".")[0] == task.name:
                encoded = base64.b64encode(content).decode()
                parts.append(f'<p><img alt="{escape(name)}" src="data:image/png;base64,{encoded}"></p>')
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>PanEndoX linear probe</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _split_line(benchmark: Benchmark) -> str:
    images = benchmark.split["images"]
    unmet = len(benchmark.split["unsatisfied"])
    return (
        f"{images['train']} images for training, {images['validation']} for validation, {images['test']} for tests, in "
        f"{benchmark.split['groups']} groups that stay whole; {unmet} classes could not be balanced.</p>"
    )


def _table(head: list[str], rows: list[list[str]], best: list[list[bool]] | None = None) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for i, row in enumerate(rows):
        marks = best[i] if best else [False] * len(row)
        cells = zip(row, marks, strict=True)
        lines.append("<tr>" + "".join(f"<td{' class=best' if b else ''}>{escape(c)}</td>" for c, b in cells) + "</tr>")
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _models(benchmark: Benchmark) -> str:
    rows = []
    for model in benchmark.models:
        speed = model["efficiency"]
        rows.append(
            [
                model["name"],
                model["architecture"],
                f"{speed['parameters'] / 1e6:.1f}",
                f"{speed['latency_ms']:.1f}",
                f"{speed['images_per_second']:.1f}",
                speed["device"],
                model["weights_sha256"][:12],
                "yes" if model["certificate"] else "none",
            ]
        )
    head = [
        "network",
        "architecture",
        "parameters (M)",
        "latency (ms)",
        "images/s",
        "device",
        "checksum",
        "leakage certificate",
    ]
    return _table(head, rows)


def _summary(benchmark: Benchmark, task: str) -> str:
    names = (
        "average_precision",
        "accuracy",
        "balanced_accuracy",
        "sensitivity",
        "specificity",
        "ppv",
        "npv",
        "f1",
        "mcc",
    )
    rows = []
    for model, outcome in benchmark.outcomes[task].items():
        f = outcome.figures
        unseen = f["without_pretraining_overlap"]
        rows.append(
            [
                model,
                *(_text(f[name]) for name in names),
                f"{_text(f['calibration']['before']['ece'])} → {_text(f['calibration']['after']['ece'])}",
                f"{_text(f['calibration']['before']['brier'])} → {_text(f['calibration']['after']['brier'])}",
                _text(unseen["macro"]) if unseen else "no overlap known",
                f["chosen"]["head"],
            ]
        )
    head = ["network", *(name.replace("_", " ") for name in names), "ECE", "Brier", "AUC, unseen only", "head"]
    return _table(head, rows)


def _classes(benchmark: Benchmark, task: str) -> str:
    by_model = benchmark.outcomes[task]
    first = next(iter(by_model.values())).figures["per_class"]
    rows = [
        [name, str(first[name]["positives"]), *(_auc(o.figures["per_class"][name]) for o in by_model.values())]
        for name in first
    ]
    datasets = next(iter(by_model.values())).figures["per_dataset"]
    rows += [
        [
            f"dataset {name}",
            str(datasets[name]["images"]),
            *(_text(o.figures["per_dataset"][name]["macro"]) for o in by_model.values()),
        ]
        for name in datasets
    ]
    return _table(["class", "images", *by_model], rows)


def _auc(figures: dict[str, float | None]) -> str:
    if figures["auc"] is None:
        return "not evaluable"
    return with_interval(figures["auc"], figures["low"], figures["high"])


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
