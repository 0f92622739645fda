"""Results of `dense` as tables and a page: figures, the cross-dataset table, and the pictures worth looking at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from panendofm.imaging.images import open_image
from panendofm.linear_probe.dense.data.images import read_truth
from panendofm.linear_probe.dense.results.outputs import mask_name
from panendofm.linear_probe.dense.results.overlays import TOLD, TRUE, outlined, thumbnail
from panendofm.linear_probe.dense.run import DenseBenchmark, Outcome, PictureResult
from panendofm.reports import pages
from panendofm.runtime.files import safe_name, write_json, write_text
from panendofm.scoring.statistics.intervals import with_interval

SHOWN = 6  # pictures of each kind
_STYLE = """
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 0.75rem; }
.note { background: #fff8e1; border-left: 4px solid #e0a800; padding: 0.5rem 0.75rem; margin: 0.75rem 0; }
"""


def shown(figure: dict[str, Any] | None) -> str:
    if figure is None or figure["value"] is None:
        return "–"
    return with_interval(figure["value"], figure["low"], figure["high"])


def main_table(benchmark: DenseBenchmark) -> tuple[list[str], list[list[str]]]:
    """One row a network, one block of columns a test set: mean Dice and IoU, as polyp papers print them, and mAP50."""
    tests = [test for fold in benchmark.plan.folds for test in fold.tests]
    head = ["network"] + [f"{test}: {what}" for test in tests for what in ("mDice", "mIoU", "mAP50")]
    rows = []
    for network in benchmark.networks:
        cells = [network["name"]]
        for fold in benchmark.plan.folds:
            outcome = next(o for o in benchmark.outcomes if (o.network, o.fold) == (network["name"], fold.name))
            for test in fold.tests:
                values = outcome.figures[test].values
                masks = values.get("segmentation")
                detection = values["detection"].get(outcome.heads.detect_with)
                cells += [shown(masks["dice"]) if masks else "–", shown(masks["iou"]) if masks else "–"]
                cells.append(shown(detection["map_50"]) if detection else "–")
        rows.append(cells)
    return head, rows


def as_json(benchmark: DenseBenchmark) -> dict[str, Any]:
    return {
        "format": 1,
        "classes": list(benchmark.classes),
        "networks": benchmark.networks,
        "notes": benchmark.plan.notes,
        "folds": [
            {
                "name": fold.name,
                "train": len(fold.train),
                "validation": len(fold.validation),
                "tests": {n: len(r) for n, r in fold.tests.items()},
            }
            for fold in benchmark.plan.folds
        ],
        "results": [
            {
                "network": o.network,
                "fold": o.fold,
                "head": o.heads.kind,
                "thresholds": list(o.heads.thresholds),
                "detect_with": o.heads.detect_with,
                "centre": o.centre,
                "tried": [{"head": c.kind, "settings": c.description, "validation": c.validation_iou} for c in o.tried],
                "tests": {name: figures.values for name, figures in o.figures.items()},
            }
            for o in benchmark.outcomes
        ],
        "paired_tests": [{k: _finite(v) for k, v in test.items()} for test in benchmark.paired],
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def write_results(benchmark: DenseBenchmark, out: Path) -> None:
    head, rows = main_table(benchmark)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    about = "Mean over test pictures with a finding, 95% bootstrap intervals over groups; mAP50 by COCO's rule."
    write_text(out / "table.md", "\n".join([*lines, "", about, *benchmark.plan.notes]) + "\n")
    write_json(out / "results.json", as_json(benchmark))
    write_text(out / "index.html", page(benchmark, out))


def page(benchmark: DenseBenchmark, out: Path) -> str:
    head, rows = main_table(benchmark)
    folds = "; ".join(
        f"{fold.name}: {len(fold.train)} pictures train, {len(fold.validation)} choose" for fold in benchmark.plan.folds
    )
    leaks = "leaks" in benchmark.plan.report
    apart = "" if leaks else "No patient, video or near-duplicate is on two sides. "
    parts = [
        "<h1>Segmentation and detection on frozen features</h1>",
        f'<p class="quiet">{pages.text(folds)}. {apart}Means over test '
        "pictures with a finding, 95% bootstrap intervals over groups; mAP50 by COCO's rule.</p>",
        *(f'<p class="note">{pages.text(note)}</p>' for note in benchmark.plan.notes),
        pages.section("Networks", pages.table(head, rows, numbers=True)),
    ]
    if benchmark.paired:
        tests = [
            [
                *(t["test"], f"{t['a']} − {t['b']}", with_interval(t["difference"], t["low"], t["high"])),
                f"{t['p_corrected']:.4f}",
            ]
            for t in benchmark.paired
        ]
        table = pages.table(["test set", "networks", "difference of IoU", "p (Holm)"], tests, numbers=True)
        parts.append(pages.section("Differences", table))
    parts += [_outcome(benchmark, outcome, out) for outcome in benchmark.outcomes]
    return pages.page("Dense tasks", "\n".join(parts), _STYLE)


def _outcome(benchmark: DenseBenchmark, outcome: Outcome, out: Path) -> str:
    parts = [
        '<p class="quiet">'
        + pages.text(
            f"Head {outcome.heads.kind}, threshold {', '.join(f'{t:g}' for t in outcome.heads.thresholds)}; tried: "
            + "; ".join(f"{c.kind} ({c.description}) {c.validation_iou:.3f}" for c in outcome.tried)
            + (f". Boxes: {outcome.centre}." if outcome.centre else ".")
        )
        + "</p>"
    ]
    for test, figures in outcome.figures.items():
        parts.append(f"<h3>{pages.text(test)}</h3>")
        masks = figures.values.get("segmentation")
        if masks:
            parts.append(_class_table(masks))
        detection = [
            [
                name + (" (chosen on validation)" if name == outcome.heads.detect_with else ""),
                *(shown(d["map_50"]), shown(d["map"])),
            ]
            for name, d in figures.values["detection"].items()
        ]
        parts.append(pages.table(["boxes by", "mAP50", "mAP"], detection, numbers=True))
        parts.append(_galleries(benchmark, outcome, test, out))
    title = outcome.network if len(benchmark.plan.folds) == 1 else f"{outcome.network}, {outcome.fold}"
    return pages.section(title, "".join(parts))


def _class_table(masks: dict[str, Any]) -> str:
    rows = []
    for name, values in masks["per_class"].items():
        for title, key in (
            ("all pictures", "mean_over_pictures"),
            ("with a finding", "mean_over_pictures_with_a_finding"),
        ):
            rows.append([f"{name}, {title}", *(shown(figure) for figure in values[key].values())])
        empty = values["left_empty"]
        rows[-2][0] += "" if empty is None else f" (left empty where clean: {empty:.0%})"
    columns = list(next(iter(masks["per_class"].values()))["mean_over_pictures"])
    return pages.table(["class", *columns], rows, numbers=True)


def _galleries(benchmark: DenseBenchmark, outcome: Outcome, test: str, out: Path) -> str:
    """Best, median and worst of the pictures with a finding; misses; false alarms."""
    results = outcome.pictures[test]
    ranked = sorted((r for r in results if r.has_finding and r.iou is not None), key=lambda r: -(r.iou or 0.0))
    middle = max(0, len(ranked) // 2 - SHOWN // 2)
    kinds = {
        "Best": ranked[:SHOWN],
        "Median": ranked[middle : middle + SHOWN],
        "Worst": ranked[::-1][:SHOWN],
        # Also what was looked for in the wrong place.
        "Misses": [r for r in results if r.has_finding and (r.iou == 0 or not r.reports_finding)][:SHOWN],
        "False alarms": [r for r in results if not r.has_finding and r.reports_finding][:SHOWN],
    }
    folder = out / "predictions" / safe_name(outcome.network) / safe_name(test)
    parts = []
    for title, chosen in kinds.items():
        if chosen:
            figures = "".join(_figure(benchmark, result, folder) for result in chosen)
            parts.append(f"<h4>{title}</h4><div class=gallery>{figures}</div>")
    legend = '<p class="quiet">Truth green, found red.</p>'
    return pages.details(f"pictures of {test}", legend + "".join(parts))


def _figure(benchmark: DenseBenchmark, result: PictureResult, folder: Path) -> str:
    picture = benchmark.plan.pictures[result.row]
    pixels = np.asarray(open_image(picture.path))
    own = np.zeros((len(benchmark.classes), picture.height, picture.width), bool)
    for number, name in enumerate(benchmark.classes):
        several = f".{name}" if len(benchmark.classes) > 1 else ""
        file = folder / mask_name(picture.name, several)
        if file.is_file():
            own[number] = np.asarray(open_image(file))[..., 0] > 127
    drawn = outlined(outlined(pixels, read_truth(picture, benchmark.classes).masks, TRUE), own, TOLD)
    caption = picture.name if result.iou is None else f"{picture.name}: IoU {result.iou:.3f}"
    image = pages.image(thumbnail(drawn), caption, "jpeg")
    return f"<figure>{image}<figcaption>{pages.text(caption)}</figcaption></figure>"
