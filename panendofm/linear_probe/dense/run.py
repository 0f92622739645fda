"""The whole of `dense`: networks × folds × test sets → heads, predictions, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from panendofm.backbone import device_of
from panendofm.backbone.networks import Network, find_networks
from panendofm.linear_probe.dense.config import CENTER, SEGMENTATION_HEADS, DenseConfig
from panendofm.linear_probe.dense.data.images import POLYP, Truth, classes_in, read_truth
from panendofm.linear_probe.dense.data.splits import Fold, Plan, make_plan
from panendofm.linear_probe.dense.geometry import shares_on_grid
from panendofm.linear_probe.dense.heads.detection_head import train_center
from panendofm.linear_probe.dense.heads.head_file import save_dense_head
from panendofm.linear_probe.dense.heads.segmentation import ENLARGED, Chosen, Sides, train_segmentation
from panendofm.linear_probe.dense.maps import Maps, feature_maps
from panendofm.linear_probe.dense.predictor import COMPONENTS, DenseHeads, Found, predict_image
from panendofm.linear_probe.dense.results.document import (
    DenseNetwork,
    DensePairedTest,
    DenseResults,
    FoldCounts,
    NetworkResults,
    SetResults,
    TriedHead,
)
from panendofm.linear_probe.dense.results.metrics import Collected, ScoredSet, score_set
from panendofm.linear_probe.dense.results.outputs import FindingsWriter, truth_extra, truth_findings
from panendofm.records.probe import ProbeFolder
from panendofm.reports.numbers import estimate as shown_estimate
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import safe_name
from panendofm.runtime.names import without_folders
from panendofm.scoring.masks import mask_metrics
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate
from panendofm.scoring.statistics.paired_tests import Measured, compare


@dataclass(frozen=True)
class ImageResult:
    """What the page shows of a test image."""

    row: int
    iou: float | None  # mean over classes; None where no mask is known
    has_finding: bool
    reports_finding: bool


@dataclass(frozen=True)
class Outcome:
    """A network on a fold: its results, and what pages and paired tests are made of."""

    results: NetworkResults
    heads: DenseHeads
    scored: dict[str, ScoredSet]  # by test set
    images: dict[str, list[ImageResult]]


@dataclass(frozen=True)
class DenseBenchmark:
    results: DenseResults
    plan: Plan
    outcomes: list[Outcome]


def run_dense(specs: Sequence[str | Network], config: DenseConfig) -> DenseBenchmark:
    """`specs`: words for networks, or networks that the caller has at hand."""
    files = ProbeFolder(Path(config.out))
    plan = make_plan(config)
    classes = (POLYP,) if config.classes == POLYP else classes_in(plan.images)
    if not any(plan.images[row].has_finding for fold in plan.folds for row in fold.train):
        raise UserError(f"{', '.join(config.data)}: no training image shows anything to find; check the masks.")
    networks = [spec for spec in specs if isinstance(spec, Network)]
    networks += find_networks([spec for spec in specs if isinstance(spec, str)])
    cache = Path(config.cache) if config.cache else files.features
    device = torch.device(device_of(config.device, "device"))
    maps = feature_maps(networks, plan.images, cache, config.side_px, config.batch_size, device)
    truths = [read_truth(image, classes) for image in track(plan.images, "truth", len(plan.images), "images")]
    _write_truth(plan, truths, classes, files.path)
    outcomes = [
        _run(network, maps[network.name], fold, plan, truths, classes, config)
        for network in networks
        for fold in plan.folds
    ]
    results = DenseResults(
        classes=list(classes),
        networks=[_about(network, maps[network.name]) for network in networks],
        notes=plan.notes,
        folds=[_counts(fold) for fold in plan.folds],
        results=[outcome.results for outcome in outcomes],
        paired_tests=paired_tests(outcomes, [network.name for network in networks], plan, config.bootstrap),
        leaks=plan.leaks,
        confidence=config.bootstrap.confidence,
    )
    return DenseBenchmark(results, plan, outcomes)


def _about(network: Network, maps: Maps) -> DenseNetwork:
    return DenseNetwork(
        name=network.name,
        word=without_folders(network.word),
        architecture=network.architecture,
        weights_sha256=network.weights_sha256,
        grid=maps.layout.grid,
        side_px=maps.layout.preprocessing.crop_px,
    )


def _counts(fold: Fold) -> FoldCounts:
    tests = {name: len(rows) for name, rows in fold.tests.items()}
    return FoldCounts(fold.name, len(fold.train), len(fold.validation), tests)


def _write_truth(plan: Plan, truths: list[Truth], classes: tuple[str, ...], out: Path) -> None:
    """The test sets' truth, so that anybody can score the predictions anew."""
    for fold in plan.folds:
        for name, rows in fold.tests.items():
            writer = FindingsWriter(out / "truth" / safe_name(name), classes, truth=True)
            for row in rows.tolist():
                image = plan.images[row]
                masks = truths[row].masks if image.masked else None
                extra = truth_extra(image, int(plan.groups[row]))
                writer.add(image.name, masks, truth_findings(truths[row]), extra)
            writer.finish()


def _run(
    network: Network,
    maps: Maps,
    fold: Fold,
    plan: Plan,
    truths: list[Truth],
    classes: tuple[str, ...],
    config: DenseConfig,
) -> Outcome:
    heads, tried, detection_head = train_heads(maps, fold, truths, config)
    several = f".{safe_name(fold.name)}" if len(plan.folds) > 1 else ""
    save_dense_head(
        ProbeFolder(Path(config.out)).head(network.name, f"dense{several}"), heads, classes, network, maps.layout
    )
    scored: dict[str, ScoredSet] = {}
    images: dict[str, list[ImageResult]] = {}
    for name, rows in fold.tests.items():
        folder = Path(config.out) / "predictions" / safe_name(network.name) / safe_name(name)
        collected, images[name] = _predict_set(heads, maps, rows, plan, truths, classes, folder)
        scored[name] = score_set(collected, plan.groups[rows], config.bootstrap)
        _say(network.name, name, scored[name].results, tried[0], heads.detect_with)
    results = NetworkResults(
        network=network.name,
        fold=fold.name,
        head=heads.kind,
        thresholds=list(heads.thresholds),
        detect_with=heads.detect_with,
        detection_head=detection_head,
        tried=[TriedHead(one.kind, one.description, one.validation_iou) for one in tried],
        tests={name: one.results for name, one in scored.items()},
    )
    return Outcome(results, heads, scored, images)


def train_heads(
    maps: Maps, fold: Fold, truths: list[Truth], config: DenseConfig
) -> tuple[DenseHeads, list[Chosen], str]:
    """The heads, all segmentation heads that were tried, and how the detection head was chosen."""
    grid = maps.layout.grid
    larger = (grid[0] * ENLARGED, grid[1] * ENLARGED)
    known = np.concatenate([fold.train, fold.validation])
    classes = len(truths[0].masks)
    shares = np.zeros((len(truths), classes, *grid), np.float32)
    enlarged = np.zeros((len(truths), classes, *larger), bool)
    for row in known.tolist():
        shares[row] = shares_on_grid(truths[row].masks, grid)
        enlarged[row] = shares_on_grid(truths[row].masks, larger) >= 0.5
    sides = Sides(fold.train, fold.validation, shares, enlarged)
    tried = train_segmentation(maps, sides, [h for h in config.heads if h in SEGMENTATION_HEADS], config.fit)
    best = tried[0]
    heads = DenseHeads(best.kind, best.head, best.thresholds)
    if CENTER not in config.heads:
        return heads, tried, ""
    boxes = [_boxes_in_shares(truth) for truth in truths]
    detection, precision, description = train_center(maps, fold.train, fold.validation, boxes, config.fit)
    of_parts = _precision_of_components(heads, maps, fold.validation, truths)
    detect_with = CENTER if precision > of_parts else COMPONENTS
    text = f"{description}; validation mAP50 {precision:.3f}, of connected parts {of_parts:.3f}"
    return DenseHeads(best.kind, best.head, best.thresholds, detection, detect_with), tried, text


def _boxes_in_shares(truth: Truth) -> list[NDArray[np.float64]]:
    _, height, width = truth.masks.shape
    scale = np.array([width, height, width, height], np.float64)
    return [np.array(boxes, np.float64).reshape(-1, 4) / scale for boxes in truth.boxes]


def _precision_of_components(heads: DenseHeads, maps: Maps, rows: NDArray[np.int64], truths: list[Truth]) -> float:
    """mAP50 of the connected parts of masks."""
    collected = Collected(tuple(str(i) for i in range(len(truths[0].masks))))
    for place, row in enumerate(rows.tolist()):
        _, height, width = truths[row].masks.shape
        prediction = predict_image(heads, maps.of([row]), maps.layout.grid, height, width)
        _add_boxes(collected, place, truths[row], prediction.boxes)
    scored = score_set(collected, np.arange(len(rows)), BootstrapConfig(replicates=1))
    return scored.results.detection[COMPONENTS].map_50.value or 0.0


def _add_boxes(collected: Collected, place: int, truth: Truth, found: dict[str, list[Found]]) -> None:
    for number, boxes in enumerate(truth.boxes):
        collected.true_boxes[number] += [(place, box, 1.0) for box in boxes]
    for detector, own in found.items():
        kept = collected.found_boxes.setdefault(detector, [[] for _ in collected.classes])
        for number, box, sure in own:
            kept[number].append((place, box, sure))


def _predict_set(
    heads: DenseHeads,
    maps: Maps,
    rows: NDArray[np.int64],
    plan: Plan,
    truths: list[Truth],
    classes: tuple[str, ...],
    folder: Path,
) -> tuple[Collected, list[ImageResult]]:
    collected = Collected(classes)
    results = []
    writer = FindingsWriter(folder, classes)
    for place, row in enumerate(rows.tolist()):
        image = plan.images[row]
        truth = truths[row]
        prediction = predict_image(heads, maps.of([row]), maps.layout.grid, image.height, image.width)
        _add_boxes(collected, place, truth, prediction.boxes)
        iou = None
        if image.masked:
            metrics = [mask_metrics(t, p) for t, p in zip(truth.masks, prediction.masks, strict=True)]
            collected.masks.append(metrics)
            collected.masked_rows.append(place)
            iou = float(np.mean([one.iou for one in metrics]))
        results.append(ImageResult(row, iou, bool(truth.masks.any()), bool(prediction.masks.any())))
        writer.add(image.name, prediction.masks, prediction.boxes[heads.detect_with])
    writer.finish()
    return collected, results


def shown(value: Estimate) -> str:
    return shown_estimate(value.value, value.low, value.high)


def _say(network: str, test: str, results: SetResults, best: Chosen, detector: str) -> None:
    parts = []
    if results.segmentation is not None:
        parts.append(f"IoU {shown(results.segmentation.iou)} on images with a finding")
    for name, boxes in results.detection.items():
        parts.append(f"mAP50 {shown(boxes.map_50)} ({name}{', chosen' if name == detector else ''})")
    say(f"{network} on {test}: {', '.join(parts)}; head {best.kind} ({best.description})")


def paired_tests(
    outcomes: list[Outcome], networks: list[str], plan: Plan, bootstrap: BootstrapConfig
) -> list[DensePairedTest]:
    """Every pair of networks on every test set, IoU; corrected for the number of sets (Holm)."""
    measured: dict[tuple[str, str], Measured] = {}
    for outcome in outcomes:
        for test, found in outcome.scored.items():
            masks = found.results.segmentation
            if masks is not None and masks.iou.value is not None and found.iou_draws is not None:
                measured[outcome.results.network, test] = Measured(masks.iou.value, found.iou_draws)
    result = []
    for a, b in combinations(networks, 2):
        tests = [t for fold in plan.folds for t in fold.tests if (a, t) in measured and (b, t) in measured]
        compared = compare([(measured[a, test], measured[b, test]) for test in tests], bootstrap.confidence)
        result += [DensePairedTest(test, a, b, **vars(one)) for test, one in zip(tests, compared, strict=True)]
    return result
