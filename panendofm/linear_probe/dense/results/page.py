"""Results of `dense` as tables and a page: metrics, the cross-dataset table, and the images worth looking at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from panendofm.imaging.images import open_image, thumbnail
from panendofm.linear_probe.dense.data.images import read_truth
from panendofm.linear_probe.dense.results.document import (
    DenseResults,
    MaskResults,
    NetworkResults,
    SetResults,
    write_dense_results,
)
from panendofm.linear_probe.dense.results.outputs import mask_name
from panendofm.linear_probe.dense.results.overlays import TOLD, TRUE, outlined
from panendofm.linear_probe.dense.run import DenseBenchmark, ImageResult, Outcome, shown
from panendofm.records.probe import ProbeFolder
from panendofm.reports import PageImage, Table, markdown, render_page
from panendofm.reports.charts import ForestRow, forest_chart
from panendofm.reports.numbers import MISSING, difference, number
from panendofm.runtime.files import safe_name, write_text

SHOWN = 6  # images of each kind


@dataclass(frozen=True)
class TestPart:
    """What the page shows of a network on a test set."""

    __test__ = False  # no test class, whatever pytest thinks of its name

    name: str
    masks: Table | None
    boxes: Table
    galleries: dict[str, list[PageImage]]


@dataclass(frozen=True)
class OutcomePart:
    title: str
    results: NetworkResults
    tests: list[TestPart]


def main_table(results: DenseResults) -> Table:
    """One row a network, one block of columns a test set: mean Dice and IoU, as polyp papers print them, and mAP50."""
    columns = ["network"]
    for fold in results.folds:
        columns += [f"{test}: {what}" for test in fold.tests for what in ("mDice", "mIoU", "mAP50")]
    rows = []
    for network in results.networks:
        cells = [network.name]
        for fold in results.folds:
            found = results.of(network.name, fold.name)
            for test in fold.tests:
                cells += _cells(found.tests[test], found.detect_with)
        rows.append(cells)
    return Table(columns, rows)


def _cells(found: SetResults, detector: str) -> list[str]:
    masks = found.segmentation
    boxes = found.detection.get(detector)
    return [
        MISSING if masks is None else shown(masks.dice),
        MISSING if masks is None else shown(masks.iou),
        MISSING if boxes is None else shown(boxes.map_50),
    ]


def write_results(benchmark: DenseBenchmark, files: ProbeFolder) -> None:
    results = benchmark.results
    lines = [markdown(main_table(results)), "", _about(results), *results.notes]
    write_text(files.table, "\n".join(lines) + "\n")
    write_dense_results(files.results, results)
    write_text(files.page, page(benchmark, files.path))


def _about(results: DenseResults) -> str:
    confidence = f"{100 * results.confidence:g}%"
    return f"Mean over test images with a finding, {confidence} bootstrap intervals over groups; mAP50 by COCO's rule."


def page(benchmark: DenseBenchmark, out: Path) -> str:
    results = benchmark.results
    return render_page(
        "panendofm.linear_probe",
        "dense.html",
        title="Dense tasks",
        results=results,
        about=_about(results),
        main=main_table(results),
        forest=_forest(results),
        paired=_paired(results),
        outcomes=[_outcome(benchmark, outcome, out) for outcome in benchmark.outcomes],
    )


def _forest(results: DenseResults) -> Markup:
    rows = [
        ForestRow(f"{test}: {found.network}", masks.iou.value, masks.iou.low, masks.iou.high)
        for found in results.results
        for test, scored in found.tests.items()
        if (masks := scored.segmentation) is not None and masks.iou.value is not None
    ]
    return forest_chart("IoU of every network and test set", rows, x_label="mean IoU")


def _paired(results: DenseResults) -> Table:
    rows = [
        [
            test.test,
            f"{test.a} − {test.b}",
            difference(test.difference, test.low, test.high),
            number(test.p_corrected, 4),
        ]
        for test in results.paired_tests
    ]
    return Table(["test set", "networks", "difference of IoU", "p (Holm)"], rows)


def _outcome(benchmark: DenseBenchmark, outcome: Outcome, out: Path) -> OutcomePart:
    results = outcome.results
    title = results.network if len(benchmark.plan.folds) == 1 else f"{results.network}, {results.fold}"
    tests = []
    for test, found in results.tests.items():
        boxes = []
        for name, precision in found.detection.items():
            chosen = " (chosen on validation)" if name == results.detect_with else ""
            boxes.append([f"{name}{chosen}", shown(precision.map_50), shown(precision.map)])
        tests.append(
            TestPart(
                test,
                None if found.segmentation is None else _class_table(found.segmentation),
                Table(["boxes by", "mAP50", "mAP"], boxes),
                _galleries(benchmark, outcome, test, out),
            )
        )
    return OutcomePart(title, results, tests)


def _class_table(masks: MaskResults) -> Table:
    rows = []
    for name, found in masks.per_class.items():
        empty = "" if found.left_empty is None else f" (left empty where clean: {found.left_empty:.0%})"
        rows.append([f"{name}, all images{empty}", *map(shown, found.mean_over_images.values())])
        rows.append([f"{name}, with a finding", *map(shown, found.mean_over_images_with_a_finding.values())])
    columns = list(next(iter(masks.per_class.values())).mean_over_images)
    return Table(["class", *columns], rows)


def _galleries(benchmark: DenseBenchmark, outcome: Outcome, test: str, out: Path) -> dict[str, list[PageImage]]:
    """Best, median and worst of the images with a finding; misses; false alarms."""
    results = outcome.images[test]
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
    folder = out / "predictions" / safe_name(outcome.results.network) / safe_name(test)
    shown_kinds = {title: chosen for title, chosen in kinds.items() if chosen}
    return {title: [_image(benchmark, one, folder) for one in chosen] for title, chosen in shown_kinds.items()}


def _image(benchmark: DenseBenchmark, result: ImageResult, folder: Path) -> PageImage:
    classes = benchmark.results.classes
    image = benchmark.plan.images[result.row]
    pixels = np.asarray(open_image(image.path))
    own = np.zeros((len(classes), image.height, image.width), bool)
    for position, name in enumerate(classes):
        several = f".{name}" if len(classes) > 1 else ""
        file = folder / mask_name(image.name, several)
        if file.is_file():
            own[position] = np.asarray(open_image(file))[..., 0] > 127
    drawn = outlined(outlined(pixels, read_truth(image, classes).masks, TRUE), own, TOLD)
    caption = image.name if result.iou is None else f"{image.name}: IoU {result.iou:.3f}"
    return PageImage(thumbnail(drawn), caption)
