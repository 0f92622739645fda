"""What the runs show, as one page: tables with intervals, curves, the rule of selection, time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.real_start.arms import (
    BEFORE,
    FROM_RELEASED,
    GROUPS,
    OTHERS,
    PROBE,
    RECENTERED_RECIPE,
    RECIPE,
    RELEASED,
    SOURCE,
    TARGET,
)
from experiments.real_start.halves import hits, trained, tuning_half, worth_of_rules
from experiments.real_start.masks import MASKS_PX
from experiments.warm_start.arms import Arm
from experiments.warm_start.findings import difference, draw_curves, rows_of
from launch.steps import Step
from panendofm.reports import Table, data_url, render_page
from panendofm.runtime.console import duration
from panendofm.runtime.files import write_text

TITLES = {
    TARGET: "kNN top-1 on real endoscopy (eight classes)",
    PROBE: "linear probe on real endoscopy, five folds",
    OTHERS: "kNN top-1 (k = 5) on ten further classes of real endoscopy",
    SOURCE: "kNN top-1 on drawn patterns, the other domain",
}
_BEFORE_COLUMN = 4
_COLUMNS = (
    *("way", "end, by seed", "mean", "against step 0", "against the weights before that"),
    *("against {}", "lowest against step 0"),
)
_SHOWN_LINES = 14  # of what a command says
TitledRows = tuple[str, list[str], list[list[str]]]  # title, columns, rows


def tables_of(results: dict[str, list[dict[str, Any]]]) -> list[TitledRows]:
    found: list[TitledRows] = []
    for name, runs in results.items():
        group = GROUPS[name]
        for measured, title in TITLES.items():
            if measured in runs[0]["curves"]:
                parts = (name, measured) == ("parts", TARGET)
                shown = [*_beside_parts(results, runs), *runs] if parts else runs
                rows = _rows(shown, GROUPS["main"].arms | group.arms, measured, _warm_start if parts else _recipe)
                other = "the warm start" if parts else "the recipe from the same weights"
                found.append((f"{group.title}: {title}", [column.format(other) for column in _COLUMNS], rows))
    searched = [run for name in ("search", "longer") for run in results.get(name, [])]
    if searched:
        found.append(_search_table(GROUPS["search"].arms | GROUPS["longer"].arms, searched))
    every = [run for runs in results.values() for run in runs]
    found += _recentring_tables(results.get("main", []))
    rule_rows = [
        [w.rule, w.against_start.shown(), w.against_highest.shown(), f"{w.against_best:+.2f}", f"{w.lowest:+.1f}"]
        for w in worth_of_rules(every)
    ]
    columns = [
        "rule",
        "against the start",
        "against the highest",
        "against the best choice",
        "lowest against the start",
    ]
    found.append((f"Choosing a checkpoint, over {len(every)} runs and ten halves of the queries", columns, rule_rows))
    return found


def _recipe(arm: str) -> str:
    return RECIPE if arm in FROM_RELEASED else RECENTERED_RECIPE


def _warm_start(arm: str) -> str:
    return RELEASED[0]


def _rows(
    runs: list[dict[str, Any]], arms: dict[str, Arm], measured: str, beside: Callable[[str], str]
) -> list[list[str]]:
    """From each way's own step 0 on; and, where the weights were changed before that, against what they were."""
    since_step_0 = [run | {"curves": {measured: trained(run["curves"][measured])}} for run in runs]
    rows = rows_of(since_step_0, arms, measured, beside)
    for arm, row in zip(dict.fromkeys(run["arm"] for run in runs), rows, strict=True):
        curves = [run["curves"][measured] for run in runs if run["arm"] == arm]
        changed = curves[0][0].get(BEFORE)
        row.insert(_BEFORE_COLUMN, difference([(curve[-1], curve[0]) for curve in curves]) if changed else "")
    return rows


def _beside_parts(results: dict[str, list[dict[str, Any]]], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The recipe and the warm start with the same seeds, from both weights, as far as the parts went."""
    last, seeds = parts[0]["curves"][TARGET][-1]["step"], {run["seed"] for run in parts}
    return [
        run | {"curves": {TARGET: [point for point in run["curves"][TARGET] if point["step"] <= last]}}
        for run in results.get("main", [])
        if run["arm"] != "heads_first" and run["seed"] in seeds
    ]


def _search_table(arms: dict[str, Arm], runs: list[dict[str, Any]]) -> TitledRows:
    """Against step 0, by halves of the queries: each way's highest evaluation, and the probe at its end.

    The highest is that on the half that was tuned on; the other half is asked about the same checkpoint. Step 0 is the
    recentered start, at the way's own size of images.
    """
    rows = []
    for run in runs:
        curve, (begun, ended) = trained(run["curves"][TARGET]), trained(run["curves"][PROBE])
        half = tuning_half(np.array([int(g) for g in curve[0]["groups"].split()]))
        at = int(np.argmax([hits(point)[half].mean() for point in curve]))
        cells = [
            100 * float((hits(now)[part] - hits(then)[part]).mean())
            for now, then in ((curve[at], curve[0]), (ended, begun))
            for part in (half, ~half)
        ]
        rows.append([arms[run["arm"]].title, str(curve[at]["step"]), *(f"{cell:+.1f}" for cell in cells)])
    columns = ["way", "highest at step", "kNN, tuned half", "kNN, other half", "probe, tuned half", "probe, other half"]
    return ("The search, by halves of the queries, in points against the recentered start", columns, rows)


def _recentring_tables(runs: list[dict[str, Any]]) -> list[TitledRows]:
    """What recentering gives, and what the warm start adds to it, over its seeds."""
    recentered = [run["curves"] for run in runs if run["arm"] == RELEASED[0]]
    if not recentered:
        return []
    rows = []
    for measured, title in TITLES.items():
        curves = [run[measured] for run in recentered]
        alone = difference([(curve[1], curve[0]) for curve in curves[:1]])  # the same with every seed
        since = difference([(curve[-1], curve[1]) for curve in curves])
        both = difference([(curve[-1], curve[0]) for curve in curves])
        begun, step_0, ended = (float(np.mean([curve[i]["top1"] for curve in curves])) for i in (0, 1, -1))
        rows.append([title, f"{begun:.3f}", f"{step_0:.3f}", f"{ended:.3f}", alone, since, both])
    columns = ["measured", "released", "recentred", "trained", "recentering alone", "training after it", "both"]
    return [("Recentering, and the warm start after it", columns, rows)]


def _release_steps(said: list[tuple[Step, str]], folder: Path) -> list[dict[str, str]]:
    """Each command, and the last lines of what it said; what it wrote, as a link."""
    return [
        {
            "title": step.title,
            "said": "\n".join(text.rstrip().splitlines()[-_SHOWN_LINES:]),
            "result": str(step.result.relative_to(folder)),
        }
        for step, text in said
    ]


def write_findings(
    results: dict[str, list[dict[str, Any]]],
    folder: Path,
    release: list[tuple[Step, str]] | None = None,
    masks: list[list[str]] | None = None,
) -> Path:
    """`index.html`, the curves, and the tables once more as `tables.md`. `masks`: rows of the later stages."""
    tables = tables_of(results)
    if masks:
        columns = ["stage", "mIoU at its beginning", "at its end", "against its beginning, in points"]
        tables.append((f"{GROUPS['stages'].title}: masks of drawn polyps at {MASKS_PX} pixels", columns, masks))
    markdown = "\n\n".join(
        f"**{title}**\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
        for title, columns, rows in tables
    )
    write_text(folder / "tables.md", markdown + "\n")
    curves = []
    for name, runs in results.items():
        path = folder / f"curves_{name}.png"
        draw_curves(runs, GROUPS[name].arms, TITLES, path)
        curves.append((GROUPS[name].title, data_url(path.read_bytes())))
    seconds = [run["cpu_seconds"] for runs in results.values() for run in runs]
    page = folder / "index.html"
    content = render_page(
        "experiments.real_start",
        "findings.html",
        title="Continued pretraining from real weights",
        curves=curves,
        tables=[(title, Table(columns, rows, numeric=False)) for title, columns, rows in tables],
        release=_release_steps(release or [], folder),
        runs=len(seconds),
        spent=duration(sum(seconds)),
    )
    write_text(page, content)
    return page
