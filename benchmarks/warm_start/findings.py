"""What the runs show: curves as a picture, figures with intervals as a table."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from benchmarks.warm_start.arms import ARMS
from records.evaluation import decode_ranks
from runtime.files import atomic_file, write_text
from scoring.intervals import group_weights

TITLES = {"target": "target: synthetic endoscopy", "source": "source: drawn patterns", "real": "real endoscopy"}
_BOOTSTRAP_SAMPLES = 2000


def draw_curves(results: list[dict[str, Any]], path: Path) -> None:
    """kNN top-1 over steps, one panel per set: the mean over seeds as a line, the seeds' range as a band."""
    sets = _sets(results)
    figure, panels = plt.subplots(1, len(sets), figsize=(5.5 * len(sets), 4.6), squeeze=False)
    for panel, name in zip(panels[0], sets, strict=True):
        for number, (arm, runs) in enumerate(_by_arm(results).items()):
            steps = [point["step"] for point in runs[0]["curves"][name]]
            values = np.array([[point["top1"] for point in run["curves"][name]] for run in runs])  # [seeds, steps]
            panel.plot(steps, values.mean(axis=0), label=ARMS[arm].title, color=f"C{number}")
            panel.fill_between(steps, values.min(axis=0), values.max(axis=0), color=f"C{number}", alpha=0.15)
        start = np.mean([run["curves"][name][0]["top1"] for run in results])
        panel.axhline(start, color="grey", linestyle=":", linewidth=1)
        panel.set(title=TITLES[name], xlabel="step", ylabel="kNN top-1, k = 20")
    handles, titles = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="lower center", ncol=3, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as stream:
        figure.savefig(stream, format="png", dpi=110)


def write_table(results: list[dict[str, Any]], untrained: dict[str, float], path: Path) -> str:
    """A table of each set: where a way ends and how low it gets, and its distance to the recipe as it is."""
    text = "\n\n".join(_table(results, name, untrained[name]) for name in _sets(results))
    write_text(path, text + "\n")
    return text


def _table(results: list[dict[str, Any]], name: str, untrained: float) -> str:
    by_arm = _by_arm(results)
    start = results[0]["curves"][name][0]["top1"]
    lines = [
        f"**{TITLES[name]}** (untrained {untrained:.3f}, start {start:.3f})",
        "",
        "| way | end, by seed | mean | against the start | against the recipe as it is | lowest against the start |",
        "|---|---|---|---|---|---|",
    ]
    for arm, runs in by_arm.items():
        curves = [run["curves"][name] for run in runs]
        ends = " ".join(f"{curve[-1]['top1']:.3f}" for curve in curves)
        mean = np.mean([curve[-1]["top1"] for curve in curves])
        gain = _difference([(curve[-1], curve[0]) for curve in curves])
        others = {run["seed"]: run["curves"][name][-1] for run in by_arm.get("recipe", [])}
        pairs = [(run["curves"][name][-1], others[run["seed"]]) for run in runs if run["seed"] in others]
        against = _difference(pairs) if pairs and arm != "recipe" else ""
        lowest = min(point["top1"] - curve[0]["top1"] for curve in curves for point in curve)
        lines.append(f"| {ARMS[arm].title} | {ends} | {mean:.3f} | {gain} | {against} | {100 * lowest:+.1f} |")
    return "\n".join(lines)


def _difference(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Mean difference of top-1 over seeds in points, with its 95% interval: seeds and groups of queries are drawn."""
    hits = np.stack([_hits(now) - _hits(then) for now, then in pairs])  # [seeds, queries]
    groups = np.array([int(group) for group in pairs[0][0]["groups"].split()])
    weights = group_weights(groups, _BOOTSTRAP_SAMPLES, seed=0)  # [samples, queries]
    by_seed = weights @ hits.T / weights.sum(axis=1, keepdims=True)  # [samples, seeds]
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(pairs), size=by_seed.shape)  # [samples, seeds]
    means = np.take_along_axis(by_seed, drawn, axis=1).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{100 * hits.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _sets(results: list[dict[str, Any]]) -> list[str]:
    return [name for name in TITLES if name in results[0]["curves"]]


def _hits(point: dict[str, Any]) -> NDArray[np.float64]:
    return (np.asarray(decode_ranks(point["ranks"])) < 1).astype(np.float64)


def _by_arm(results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        found[result["arm"]].append(result)
    return dict(found)
