"""One HTML page that needs no other file and no network."""

from __future__ import annotations

from panendofm.linear_probe.results.tables import CLEANING_TITLE, cleaning_table, main_table
from panendofm.linear_probe.run import Benchmark
from panendofm.reports import pages
from panendofm.reports.pages import text
from panendofm.scoring.statistics.intervals import with_interval


def page(benchmark: Benchmark, pictures: dict[str, bytes]) -> str:
    """`pictures` by file name (roc_TASK….png, confusion_TASK….png)."""
    parts = ["<h1>PanEndoX linear probe</h1>", f"<p>Protocol: {text(benchmark.protocol)}. ", _split_line(benchmark)]
    head, rows, best = main_table(benchmark)
    parts += ["<h2>Macro-AUC with 95% intervals over groups</h2>", _table(head, rows, best)]
    parts += [f'<p class="quiet">Not evaluable: {text(n)} ({text(w)}).</p>' for n, w in benchmark.skipped.items()]
    head, rows = cleaning_table(benchmark)
    if rows:
        parts += [f"<h2>{text(CLEANING_TITLE)}</h2>", _table(head, rows)]
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
        parts += [f"<h2>{text(task.title)}</h2>", _summary(benchmark, task.name), _classes(benchmark, task.name)]
        for name, content in pictures.items():
            if name.removeprefix("roc_").removeprefix("confusion_").split(".")[0] == task.name:
                parts.append(f"<p>{pages.image(content, name)}</p>")
    return pages.page("PanEndoX linear probe", "\n".join(parts))


def _split_line(benchmark: Benchmark) -> str:
    images = benchmark.split["images"]
    unmet = len(benchmark.split["unsatisfied"])
    return (
        f"{images['train']} images for training, {images['validation']} for validation, {images['test']} for tests, in "
        f"{benchmark.split['groups']} groups that stay whole; {unmet} classes could not be balanced.</p>"
    )


def _table(head: list[str], rows: list[list[str]], best: list[list[bool]] | None = None) -> str:
    return pages.table(head, rows, numbers=True, best=best)


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
                *(_number(f[name]) for name in names),
                f"{_number(f['calibration']['before']['ece'])} → {_number(f['calibration']['after']['ece'])}",
                f"{_number(f['calibration']['before']['brier'])} → {_number(f['calibration']['after']['brier'])}",
                _number(unseen["macro"]) if unseen else "no overlap known",
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
            *(_number(o.figures["per_dataset"][name]["macro"]) for o in by_model.values()),
        ]
        for name in datasets
    ]
    return _table(["class", "images", *by_model], rows)


def _auc(figures: dict[str, float | None]) -> str:
    if figures["auc"] is None:
        return "not evaluable"
    return with_interval(figures["auc"], figures["low"], figures["high"])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
