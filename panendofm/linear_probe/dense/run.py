"""The whole of `dense`: networks × folds × test sets → heads, predictions, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from panendofm.backbone import device_of
from panendofm.backbone.networks import Network, find_networks
from panendofm.linear_probe.dense.config import CENTRE, SEGMENTATION_HEADS, DenseConfig
from panendofm.linear_probe.dense.data.images import POLYP, Truth, classes_in, read_truth
from panendofm.linear_probe.dense.data.splits import Fold, Plan, make_plan
from panendofm.linear_probe.dense.geometry import shares_on_grid
from panendofm.linear_probe.dense.heads.detection_head import train_centre
from panendofm.linear_probe.dense.heads.head_file import save_dense_head
from panendofm.linear_probe.dense.heads.segmentation import ENLARGED, Chosen, Sides, train_segmentation
from panendofm.linear_probe.dense.maps import Maps, feature_maps
from panendofm.linear_probe.dense.predictor import COMPONENTS, DenseHeads, predict_picture
from panendofm.linear_probe.dense.results.metrics import Collected, SetFigures, figures_of
from panendofm.linear_probe.dense.results.outputs import FindingsWriter, truth_extra, truth_findings
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import safe_name
from panendofm.runtime.names import without_folders
from panendofm.scoring.masks import mask_metrics
from panendofm.scoring.statistics.intervals import paired_p_value, with_interval
from panendofm.scoring.statistics.paired_tests import holm


@dataclass(frozen=True)
class PictureResult:
    """What the page shows of a test picture."""

    row: int
    iou: float | None  # mean over classes; None where no mask is known
    has_finding: bool
    reports_finding: bool


@dataclass
class Outcome:
    """A network on a fold: what was trained, and its figures on each test set."""

    network: str
    fold: str
    heads: DenseHeads
    tried: list[Chosen]
    figures: dict[str, SetFigures]
    pictures: dict[str, list[PictureResult]]
    centre: str = ""


@dataclass
class DenseBenchmark:
    plan: Plan
    classes: tuple[str, ...]
    networks: list[dict[str, Any]]
    outcomes: list[Outcome] = field(default_factory=list)
    paired: list[dict[str, Any]] = field(default_factory=list)


def run_dense(words: Sequence[str], config: DenseConfig) -> DenseBenchmark:
    out = Path(config.out)
    plan = make_plan(config)
    classes = (POLYP,) if config.classes == POLYP else classes_in(plan.pictures)
    if not any(plan.pictures[row].has_finding for fold in plan.folds for row in fold.train):
        raise UserError(f"{', '.join(config.data)}: no training picture shows anything to find; check the masks.")
    networks = find_networks(words)
    cache = Path(config.cache) if config.cache else out / "features"
    device = torch.device(device_of(config.device, "device"))
    maps = feature_maps(networks, plan.pictures, cache, config.side_px, config.batch_size, device)
    truths = [read_truth(p, classes) for p in track(plan.pictures, "truth", len(plan.pictures), "pictures")]
    about = [
        {
            "name": n.name,
            "word": without_folders(n.word),
            "architecture": n.architecture,
            "weights_sha256": n.weights_sha256,
        }
        | {"grid": list(maps[n.name].layout.grid), "side_px": maps[n.name].layout.preprocessing.crop_px}
        for n in networks
    ]
    benchmark = DenseBenchmark(plan, classes, about)
    _write_truth(plan, truths, classes, out)
    for network in networks:
        for fold in plan.folds:
            benchmark.outcomes.append(_run(network, maps[network.name], fold, plan, truths, classes, config))
    benchmark.paired = paired_tests(benchmark)
    return benchmark


def _write_truth(plan: Plan, truths: list[Truth], classes: tuple[str, ...], out: Path) -> None:
    """The test sets' truth, so that anybody can score the predictions anew."""
    for fold in plan.folds:
        for name, rows in fold.tests.items():
            writer = FindingsWriter(out / "truth" / safe_name(name), classes, truth=True)
            for row in rows.tolist():
                picture = plan.pictures[row]
                masks = truths[row].masks if picture.masked else None
                extra = truth_extra(picture, int(plan.groups[row]))
                writer.add(picture.name, masks, truth_findings(truths[row]), extra)
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
    heads, tried, centre = train_heads(maps, fold, truths, config)
    several = f".{safe_name(fold.name)}" if len(plan.folds) > 1 else ""
    path = Path(config.out) / "heads" / safe_name(network.name) / f"dense{several}.safetensors"
    save_dense_head(path, heads, classes, network, maps.layout)
    outcome = Outcome(network.name, fold.name, heads, tried, {}, {}, centre)
    for name, rows in fold.tests.items():
        folder = Path(config.out) / "predictions" / safe_name(network.name) / safe_name(name)
        collected, results = _predict_set(heads, maps, rows, plan, truths, classes, folder)
        figures = figures_of(collected, plan.groups[rows], config.bootstrap_replicates, config.seed)
        outcome.figures[name], outcome.pictures[name] = figures, results
        _say(network.name, name, figures.values, tried[0], heads.detect_with)
    return outcome


def train_heads(
    maps: Maps, fold: Fold, truths: list[Truth], config: DenseConfig
) -> tuple[DenseHeads, list[Chosen], str]:
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
    if CENTRE not in config.heads:
        return heads, tried, ""
    boxes = [_boxes_in_shares(truth) for truth in truths]
    centre, figure, description = train_centre(maps, fold.train, fold.validation, boxes, config.fit)
    parts = _components_map(heads, maps, fold.validation, truths)
    with_centre = CENTRE if figure > parts else COMPONENTS
    text = f"{description}; validation mAP50 {figure:.3f}, of connected parts {parts:.3f}"
    return DenseHeads(best.kind, best.head, best.thresholds, centre, with_centre), tried, text


def _boxes_in_shares(truth: Truth) -> list[NDArray[np.float64]]:
    _, height, width = truth.masks.shape
    scale = np.array([width, height, width, height], np.float64)
    return [np.array(boxes, np.float64).reshape(-1, 4) / scale for boxes in truth.boxes]


def _components_map(heads: DenseHeads, maps: Maps, rows: NDArray[np.int64], truths: list[Truth]) -> float:
    collected = Collected(tuple(str(i) for i in range(len(truths[0].masks))))
    _collect(collected, heads, maps, rows, truths)
    value = figures_of(collected, np.arange(len(rows)), 1, 0).values["detection"][COMPONENTS]["map_50"]["value"]
    return value if value is not None else 0.0


def _collect(collected: Collected, heads: DenseHeads, maps: Maps, rows: NDArray[np.int64], truths: list[Truth]) -> None:
    """Boxes only."""
    for place, row in enumerate(rows.tolist()):
        _, height, width = truths[row].masks.shape
        prediction = predict_picture(heads, maps.of([row]), maps.layout.grid, height, width)
        _add_boxes(collected, place, truths[row], prediction.boxes)


def _add_boxes(collected: Collected, place: int, truth: Truth, found: dict[str, list[Any]]) -> None:
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
) -> tuple[Collected, list[PictureResult]]:
    collected, results = Collected(classes), []
    writer = FindingsWriter(folder, classes)
    for place, row in enumerate(rows.tolist()):
        picture, truth = plan.pictures[row], truths[row]
        prediction = predict_picture(heads, maps.of([row]), maps.layout.grid, picture.height, picture.width)
        _add_boxes(collected, place, truth, prediction.boxes)
        iou = None
        if picture.masked:
            figures = [mask_metrics(t, p) for t, p in zip(truth.masks, prediction.masks, strict=True)]
            collected.masks.append(figures)
            collected.masked_rows.append(place)
            iou = float(np.mean([f.iou for f in figures]))
        results.append(PictureResult(row, iou, bool(truth.masks.any()), bool(prediction.masks.any())))
        writer.add(picture.name, prediction.masks, prediction.boxes[heads.detect_with])
    writer.finish()
    return collected, results


def _say(network: str, test: str, values: dict[str, Any], best: Chosen, detector: str) -> None:
    parts = []
    if "segmentation" in values:
        iou = values["segmentation"]["iou"]
        shown = "–" if iou["value"] is None else with_interval(iou["value"], iou["low"], iou["high"])
        parts.append(f"IoU {shown} on pictures with a finding")
    for name, figures in values["detection"].items():
        value = figures["map_50"]
        shown = "–" if value["value"] is None else with_interval(value["value"], value["low"], value["high"])
        parts.append(f"mAP50 {shown} ({name}{', chosen' if name == detector else ''})")
    say(f"{network} on {test}: {', '.join(parts)}; head {best.kind} ({best.description})")


def paired_tests(benchmark: DenseBenchmark) -> list[dict[str, Any]]:
    """Every pair of networks on every test set, IoU; corrected for the number of sets (Holm)."""
    by_key = {(o.network, o.fold): o for o in benchmark.outcomes}
    names = [n["name"] for n in benchmark.networks]
    result = []
    for a, b in combinations(names, 2):
        values, differences = {}, {}
        for fold in benchmark.plan.folds:
            first, second = by_key[a, fold.name], by_key[b, fold.name]
            for test in fold.tests:
                one, other = first.figures[test], second.figures[test]
                if "iou" in one.draws and "iou" in other.draws:
                    values[test] = paired_p_value(one.draws["iou"], other.draws["iou"])
                    drawn = one.draws["iou"] - other.draws["iou"]
                    known = drawn[~np.isnan(drawn)]
                    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
                    ious = [s.values["segmentation"]["iou"]["value"] for s in (one, other)]
                    if None not in ious:
                        differences[test] = (ious[0] - ious[1], float(low), float(high))
        corrected = holm(values)
        for test, (difference, low, high) in differences.items():
            result.append(
                {"test": test, "a": a, "b": b, "difference": difference, "low": low, "high": high}
                | {"p": values[test], "p_corrected": corrected[test]}
            )
    return result
