"""The box question: overlap, valid boxes, outlines, annotators, the convention of the coordinates, specificity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from panendofm.scoring.answers.localization import (
    check_conventions,
    corner_iou,
    iou_best_match,
    iou_with_truth,
    outline_iou,
    recall_curve,
    union_iou,
)
from panendofm.scoring.statistics.intervals import group_weights
from panendofm.vqa.bench.items import Item
from panendofm.vqa.score.gi_bench.estimates import Columns
from panendofm.vqa.score.gi_bench.sheets import Sheet


def box_figures(sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """Everything about a contestant's boxes that is not a mean with an interval."""
    items = columns.lesions.get("q2", [])
    if not items:
        return {}
    truths = [[list(region.box) for region in item.targets] for item in items]
    replies = [sheet.q2[item.sha256] for item in items]
    first = np.array([iou_with_truth(t, r.boxes) for t, r in zip(truths, replies, strict=True)])
    valid = np.array([r.status == "ok" for r in replies])
    result: dict[str, Any] = {
        "q2_miou": float(first.mean()),
        "q2_miou_best_match": _mean(iou_best_match(t, r.boxes) for t, r in zip(truths, replies, strict=True)),
        "q2_miou_union": _mean(union_iou(t, r.boxes) for t, r in zip(truths, replies, strict=True)),
        "q2_miou_over_valid": float(first[valid].mean()) if valid.any() else None,
        "q2_valid_rate": float(valid.mean()),
        "q2_boxes_per_reply": float(np.mean([len(r.boxes) for r in replies])),
        "q2_recall_curve": {f"{t:.2f}": share for t, share in recall_curve(first).items()},
    }
    result |= _convention(sheet, items, truths, columns.draws) | _outlines(sheet, items) | _annotators(sheet, items)
    if columns.negatives:
        rejected = [sheet.q2[item.sha256].status == "none" for item in columns.negatives]
        result |= {"specificity": float(np.mean(rejected)), "pictures_without_lesion": len(rejected)}
    return result


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def _convention(
    sheet: Sheet, items: Sequence[Item], truths: Sequence[Sequence[Sequence[float]]], draws: int
) -> dict[str, Any]:
    groups = np.unique([item.group for item in items], return_inverse=True)[1].astype(np.int64)
    texts = [sheet.replies["Q2"].get(item.sha256, "") for item in items]
    sizes = [(item.width, item.height) for item in items]
    check = check_conventions(texts, truths, sizes, sheet.convention, group_weights(groups, draws or 200, 0))
    return {"q2_by_convention": check.mean_iou, "q2_looks_like": check.better}


def _outlines(sheet: Sheet, items: Sequence[Item]) -> dict[str, Any]:
    """Overlap with the true outlines, and the most that the lesions' own boxes reach, where outlines are known."""
    known = [item for item in items if all(len(region.polygon) >= 3 for region in item.targets)]
    if not known:
        return {}
    outlines = [[region.polygon for region in item.targets] for item in known]
    said = [sheet.q2[item.sha256].boxes[:1] for item in known]
    tight = [[region.box for region in item.targets] for item in known]
    return {
        "q2_outlines": len(known),
        "q2_miou_outline": _mean(outline_iou(t, boxes) for t, boxes in zip(outlines, said, strict=True)),
        "q2_miou_outline_ceiling": _mean(outline_iou(t, boxes) for t, boxes in zip(outlines, tight, strict=True)),
    }


def _annotators(sheet: Sheet, items: Sequence[Item]) -> dict[str, Any]:
    """Overlap with each annotator's own boxes, and that of the annotators among themselves: nobody can ask for more."""
    against: dict[str, list[float]] = defaultdict(list)
    among = []
    for item in items:
        own: dict[str, list[Sequence[float]]] = defaultdict(list)
        for region in item.regions:
            if region.annotator:
                own[region.annotator].append(region.box)
        for name, boxes in own.items():
            against[name].append(iou_with_truth(boxes, sheet.q2[item.sha256].boxes))
        among += [
            float(corner_iou(a, b)[0, 0]) if len(a) == len(b) == 1 else union_iou(a, b)
            for a, b in combinations(own.values(), 2)
        ]
    if not among:
        return {}
    means = {name: float(np.mean(values)) for name, values in sorted(against.items())}
    return {"q2_miou_by_annotator": means, "q2_annotators_iou": float(np.mean(among)), "q2_annotated": len(among)}
