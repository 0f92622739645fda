"""What the runs show: curves as an image, figures with intervals as a table."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from experiments.warm_start.arms import Arm
from panendofm.records.evaluation import decode_ranks
from panendofm.runtime.files import atomic_file
from panendofm.scoring.statistics.intervals import group_weights

_BOOTSTRAP_SAMPLES = 2000
RECIPE = "recipe"  # the way that all others are compared with
_LEGEND_COLUMNS = 2  # names of ways are long


def draw_curves(results: list[dict[str, Any]], arms: dict[str, Arm], titles: dict[str, str], path: Path) -> None:
    """kNN top-1 over steps, one panel per set: the mean over seeds as a line, the seeds' range as a band."""
    sets = [name for name in titles if name in results[0]["curves"]]
    legend_inches = 0.3 + 0.22 * -(-len(_by_arm(results)) // _LEGEND_COLUMNS)
    size = (max(11.0, 5.5 * len(sets)), 4.2 + legend_inches)  # wide enough for the legend, too
    figure, panels = plt.subplots(1, len(sets), figsize=size, squeeze=False)
    for panel, name in zip(panels[0], sets, strict=True):
        for number, (arm, runs) in enumerate(_by_arm(results).items()):
            steps = [point["step"] for point in runs[0]["curves"][name]]
            values = np.array([[point["top1"] for point in run["curves"][name]] for run in runs])  # [seeds, steps]
            style = "-" if number < 10 else "--"  # there are ten colors
            panel.plot(steps, values.mean(axis=0), label=arms[arm].title, color=f"C{number}", linestyle=style)
            panel.fill_between(steps, values.min(axis=0), values.max(axis=0), color=f"C{number}", alpha=0.15)
        starts = {run["curves"][name][0]["top1"] for run in results}
        if len(starts) == 1:
            panel.axhline(starts.pop(), color="grey", linestyle=":", linewidth=1)
        panel.set(title=titles[name], xlabel="step", ylabel="top-1")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncol=_LEGEND_COLUMNS, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, legend_inches / size[1], 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as stream:
        figure.savefig(stream, format="png", dpi=110)


COLUMNS = (
    "way",
    "end, by seed",
    "mean",
    "against the start",
    "against the recipe as it is",
    "lowest against the start",
)


def markdown_table(results: list[dict[str, Any]], arms: dict[str, Arm], name: str) -> str:
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows_of(results, arms, name)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def rows_of(results: list[dict[str, Any]], arms: dict[str, Arm], name: str) -> list[list[str]]:
    """One set of images: where a way ends and how low it gets, and its distance to the recipe."""
    by_arm = _by_arm(results)
    rows = []
    for arm, runs in by_arm.items():
        curves = [run["curves"][name] for run in runs]
        ends = " ".join(f"{curve[-1]['top1']:.3f}" for curve in curves)
        mean = np.mean([curve[-1]["top1"] for curve in curves])
        gain = _difference([(curve[-1], curve[0]) for curve in curves])
        others = {run["seed"]: run["curves"][name][-1] for run in by_arm.get(RECIPE, [])}
        pairs = [(run["curves"][name][-1], others[run["seed"]]) for run in runs if run["seed"] in others]
        against = _difference(pairs) if pairs and arm != RECIPE else ""
        lowest = min(point["top1"] - curve[0]["top1"] for curve in curves for point in curve)
        rows.append([arms[arm].title, ends, f"{mean:.3f}", gain, against, f"{100 * lowest:+.1f}"])
    return rows


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


def _hits(point: dict[str, Any]) -> NDArray[np.float64]:
    return (np.asarray(decode_ranks(point["ranks"])) < 1).astype(np.float64)


def _by_arm(results: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        found[result["arm"]].append(result)
    return dict(found)
