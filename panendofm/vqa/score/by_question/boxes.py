"""Boxes: overlap, valid boxes, outlines, annotators, the convention of the coordinates, specificity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

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
from panendofm.vqa.bench.items import Box, Item
from panendofm.vqa.score.by_question.results import BoxMetrics
from panendofm.vqa.score.sheets import QuestionSet, Sheet

_FEWEST_REPLICATES = 200  # a hint about conventions needs an interval even where none is shown


def box_metrics(sheet: Sheet, questions: QuestionSet, negatives: Sequence[Item]) -> BoxMetrics:
    """Everything about a contestant's boxes that is not a mean with an interval."""
    items = questions.items
    replies = [sheet.reading(item) for item in items]
    overlaps = sheet.values(items)
    valid = np.array([reply.status == "ok" for reply in replies])
    rejected = [sheet.reading(item).status == "none" for item in negatives]
    conventions = check_conventions(
        [reply.text for reply in replies],
        [item.target_boxes for item in items],
        [(item.width, item.height) for item in items],
        sheet.parser.box_convention,
        group_weights(questions.groups, questions.bootstrap.replicates or _FEWEST_REPLICATES, questions.bootstrap.seed),
    )
    outlined = [item for item in items if all(len(region.polygon) >= 3 for region in item.targets)]
    said = {item.id: sheet.reading(item).boxes[:1] for item in outlined}
    by_annotator, among = _annotators(sheet, items)
    return BoxMetrics(
        valid_rate=float(valid.mean()),
        best_match=_mean(iou_best_match(item.target_boxes, sheet.reading(item).boxes) for item in items),
        specificity=float(np.mean(rejected)) if rejected else None,
        negatives=len(rejected),
        miou=float(overlaps.mean()),
        union=_mean(union_iou(item.target_boxes, sheet.reading(item).boxes) for item in items),
        over_valid=float(overlaps[valid].mean()) if valid.any() else None,
        boxes_per_reply=_mean(len(reply.boxes) for reply in replies),
        recall_curve={f"{threshold:.2f}": share for threshold, share in recall_curve(overlaps).items()},
        by_convention=conventions.mean_iou,
        looks_like=conventions.better,
        outlines=len(outlined),
        outline=_outlines(outlined, lambda item: said[item.id]),
        outline_ceiling=_outlines(outlined, lambda item: item.target_boxes),
        by_annotator=by_annotator,
        annotators_iou=_mean(among) if among else None,
        annotated=len(among),
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _outlines(items: Sequence[Item], boxes: Callable[[Item], Sequence[Sequence[float]]]) -> float | None:
    """Overlap of boxes with the true outlines, where these are known."""
    if not items:
        return None
    return _mean(outline_iou([region.polygon for region in item.targets], boxes(item)) for item in items)


def _annotators(sheet: Sheet, items: Sequence[Item]) -> tuple[dict[str, float], list[float]]:
    """Overlap with each annotator's own boxes, and that of the annotators among themselves: nobody can ask for more."""
    against: dict[str, list[float]] = defaultdict(list)
    among = []
    for item in items:
        own: dict[str, list[Box]] = defaultdict(list)
        for region in item.regions:
            if region.annotator:
                own[region.annotator].append(region.box)
        for name, boxes in own.items():
            against[name].append(iou_with_truth(boxes, sheet.reading(item).boxes))
        for a, b in combinations(own.values(), 2):
            among.append(float(corner_iou(a, b)[0, 0]) if len(a) == len(b) == 1 else union_iou(a, b))
    if not among:
        return {}, []
    return {name: float(np.mean(values)) for name, values in sorted(against.items())}, among
