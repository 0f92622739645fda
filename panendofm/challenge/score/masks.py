"""Figures of a segmentation file: overlaps and distances per picture, pooled pixels, correct «nothing»."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from panendofm.challenge.files.finding_model import Finding, FindingsFile, Frame
from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.files.names import Key
from panendofm.challenge.score.format_metric import figure, mean, none_for_nan, weighted_means
from panendofm.runtime.console import track
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification import rates
from panendofm.scoring.masks import (
    Empties,
    Mask,
    MaskFigures,
    class_confusion,
    class_ious,
    frame_verdict,
    mask_figures,
    pooled,
    size_of,
)
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.generalization import generalisation
from panendofm.scoring.statistics.intervals import group_weights

MEANS = (
    *("dice", "iou", "precision", "recall", "f2", "accuracy", "hausdorff", "hausdorff_95"),
    *("hausdorff_over_diagonal", "hausdorff_95_over_diagonal", "mean_surface_distance"),
)
# JPEG blurs edges: its masks are cut in the middle. A PNG must say 0 or 255.
_JPEG = {".jpg", ".jpeg"}


def read_mask(file: FindingsFile, finding: Finding) -> Mask:
    assert finding.mask is not None
    path: Path = finding.mask
    try:
        with Image.open(path) as image:
            values = np.asarray(image.convert("L"))
    except FileNotFoundError:
        raise file.fail(finding.line, f"the mask {path} does not exist; check the path.") from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise file.fail(finding.line, f"the mask {path} cannot be read ({error}); replace it.") from None
    if path.suffix.lower() not in _JPEG and not np.isin(values, (0, 255)).all():
        odd = int(values[~np.isin(values, (0, 255))][0])
        raise file.fail(finding.line, f"the mask {path} holds the value {odd}; a mask has 0 and 255 only.")
    return np.asarray(values >= 128)


def mask_of(
    file: FindingsFile, frame: Frame, category: str, size: tuple[int, int] | None
) -> tuple[Mask | None, tuple[int, int] | None]:
    """The union of a category's masks in a frame and the picture's size; None when it has none."""
    union: Mask | None = None
    for finding in frame.findings:
        if finding.category != category:
            continue
        mask = read_mask(file, finding) if finding.mask is not None else _polygon(file, finding, size)
        here = (mask.shape[1], mask.shape[0])
        if size is not None and here != size:
            raise file.fail(
                finding.line,
                f"the mask is {here[0]} × {here[1]}, the picture {size[0]} × {size[1]}; write the original size.",
            )
        size = here
        union = mask if union is None else union | mask
    return union, size


def _polygon(file: FindingsFile, finding: Finding, size: tuple[int, int] | None) -> Mask:
    if size is None:
        raise file.fail(finding.line, "a polygon needs the picture's size; add width and height to the truth.")
    canvas = np.zeros((size[1], size[0]), np.uint8)
    points = np.array(finding.polygon, np.float64).reshape(-1, 2)
    cv2.fillPoly(canvas, [np.round(points).astype(np.int32)], 1)
    return canvas.astype(bool)


def score_masks(
    truth: FindingsFile,
    prediction: FindingsFile,
    frames: FrameSet,
    answers: Mapping[Key, Frame],
    classes: tuple[str, ...],
    empties: Empties,
    bootstrap: BootstrapConfig,
    unseen: str | None = None,
    mm_per_px: float | None = None,
) -> dict[str, Any]:
    figures: dict[str, list[MaskFigures]] = {name: [] for name in classes}
    longest: dict[str, list[float | None]] = {name: [] for name in classes}
    confusions = []
    rows = list(zip(frames.frames, (answers[key] for key in frames.keys), strict=True))
    for frame, told in track(rows, "masks", len(rows), "frames"):
        pairs = _pairs(truth, prediction, frame, told, classes)
        for name, (true, own) in pairs.items():
            figures[name].append(mask_figures(true, own, empties))
            size = size_of(true)
            longest[name].append(size.longest_px / float(np.hypot(*true.shape)) if size else None)
        confusions.append(_confusion(pairs))
    weights = group_weights(frames.groups, bootstrap.samples, bootstrap.seed)
    result: dict[str, Any] = {
        "type": "segmentation",
        "n": len(frames),
        "classes": list(classes),
        "empties": empties,
        "groups": {"kind": frames.group_kind, "count": int(frames.groups.max()) + 1},
        "per_class": {
            name: _class(found, weights, bootstrap.confidence) | {"by_size": _by_size(found, longest[name])}
            for name, found in figures.items()
        },
        "mean_iou_of_classes": _mean_iou(confusions),
        "mm_per_px": mm_per_px,
    }
    if frames.centres:
        result["centres"] = _centres(frames, figures, unseen)
    return result


def _pairs(
    truth: FindingsFile, prediction: FindingsFile, frame: Frame, told: Frame, classes: Sequence[str]
) -> dict[str, tuple[Mask, Mask]]:
    """True and predicted mask of each class; a class that nobody marked is empty on that side."""
    size = frame.size or told.size
    found: dict[str, list[Mask | None]] = {}
    for name in classes:
        true, size = mask_of(truth, frame, name, size)
        own, size = mask_of(prediction, told, name, size)
        found[name] = [true, own]
    if size is None:
        raise UserError(
            f"{truth.path}, line {frame.line}: neither side has a mask of {frame.file}, so its size is not known; add "
            "width and height to the truth."
        )
    empty = np.zeros((size[1], size[0]), bool)
    return {
        name: (true if true is not None else empty, own if own is not None else empty)
        for name, (true, own) in found.items()
    }


def _confusion(pairs: dict[str, tuple[Mask, Mask]]) -> NDArray[np.float64]:
    """Pixels by class, 0 for none; where classes overlap the later one counts."""
    shape = next(iter(pairs.values()))[0].shape
    sides = np.zeros((2, *shape), np.int64)
    for number, masks in enumerate(pairs.values(), 1):
        for side in (0, 1):
            sides[side][masks[side]] = number
    return class_confusion(sides[0], sides[1], len(pairs) + 1)


def _mean_iou(confusions: list[NDArray[np.float64]]) -> dict[str, float | None]:
    pooled_ious = class_ious(np.sum(confusions, axis=0))
    return {
        "pooled": none_for_nan(mean(pooled_ious)),
        "pooled_without_background": none_for_nan(mean(pooled_ious[1:])),
        "mean_of_pictures": none_for_nan(float(np.mean([mean(class_ious(c)) for c in confusions]))),
    }


def _class(found: list[MaskFigures], weights: NDArray[np.float64], level: float) -> dict[str, Any]:
    table = {name: np.array([f.values()[name] for f in found]) for name in MEANS}
    with_finding = np.array([f.has_finding for f in found])
    means = {n: figure(mean(v), weighted_means(v, weights), level) for n, v in table.items()}
    positive = {n: np.where(with_finding, v, np.nan) for n, v in table.items()}
    clean = [f for f in found if not f.has_finding]
    left_empty = np.where(with_finding, np.nan, [not f.reports_finding for f in found])
    parts = [means[n]["value"] for n in ("dice", "precision", "recall")]
    pools = pooled(found, weights)
    verdicts = [frame_verdict(int(f.counts.tp + f.counts.fn), int(f.counts.tp), int(f.counts.fp)) for f in found]
    counts = rates.Counts.of(*(verdicts.count(v) for v in ("tp", "fp", "fn", "tn")))
    return {
        "mean_over_pictures": means,
        "mean_over_pictures_with_a_finding": {
            n: figure(mean(v), weighted_means(v, weights), level) for n, v in positive.items()
        },
        "pooled_pixels": {n: figure(v, pools[n], level) for n, v in pooled(found).items()},
        "correct_nothing": {
            "pictures_without_finding": len(clean),
            "left_empty": sum(not f.reports_finding for f in clean),
            "rate": figure(mean(left_empty), weighted_means(left_empty, weights), level),
        },
        "frame_verdicts": {
            "rule": "40% of the finding's pixels marked",
            "sensitivity": none_for_nan(rates.recall(counts)),
            "specificity": none_for_nan(rates.specificity(counts)),
        },
        "ranking": {
            "endotect": means["iou"]["value"],
            "endocv2021": none_for_nan(
                float(np.mean([p for p in parts if p is not None] + [1 - (means["hausdorff_over_diagonal"]["value"])]))
            ),
            "endocv2020": none_for_nan(
                float(np.mean([means[n]["value"] or 0.0 for n in ("dice", "f2", "precision", "recall")]))
            ),
            "ead2019": 0.75 * (means["dice"]["value"] + means["iou"]["value"]) / 2 + 0.25 * means["f2"]["value"],
        },
    }


def _by_size(found: list[MaskFigures], longest: list[float | None]) -> dict[str, Any]:
    """Dice by the finding's longest diameter as a share of the diagonal."""
    limits = {"small": (0.0, 0.1), "medium": (0.1, 0.3), "large": (0.3, 2.0)}
    result = {}
    for name, (low, high) in limits.items():
        inside = [f.dice for f, size in zip(found, longest, strict=True) if size is not None and low < size <= high]
        result[name] = {"pictures": len(inside), "dice": float(np.mean(inside)) if inside else None}
    return result


def _centres(frames: FrameSet, figures: dict[str, list[MaskFigures]], unseen: str | None) -> dict[str, Any]:
    dice = np.mean([[f.dice for f in found] for found in figures.values()], axis=0)
    result: dict[str, Any] = {"dice": {name: float(dice[frames.inside(name)].mean()) for name in frames.centres}}
    if unseen is not None:
        inside = frames.inside(unseen)
        if inside.any() and not inside.all():
            seen, outside = float(dice[~inside].mean()), float(dice[inside].mean())
            result["generalisation"] = {"seen": seen, "unseen": outside, **generalisation(seen, outside)._asdict()}
    return result
