"""From several annotators to one answer, and how much they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from panendofm.scoring.detection.boxes import Floats, box_iou

AGREEING_IOU = 0.7  # more than this: equal counts as disagreement


@dataclass(frozen=True)
class BoxConsensus:
    """The mean of the boxes that agree; without agreement no box, and arbitration comes next."""

    box: tuple[float, float, float, float] | None
    merged: tuple[int, ...]

    @property
    def next_step(self) -> str:
        return "review" if self.box is not None else "arbitration"


def box_consensus(boxes: Sequence[Sequence[float]], least_iou: float = AGREEING_IOU) -> BoxConsensus:
    """All boxes that belong to an agreeing pair are averaged."""
    table = np.array(boxes, np.float64).reshape(-1, 4)
    overlap = box_iou(table, table)
    agreeing = sorted({i for pair in combinations(range(len(table)), 2) if overlap[pair] > least_iou for i in pair})
    if not agreeing:
        return BoxConsensus(None, ())
    x, y, w, h = table[agreeing].mean(axis=0).tolist()
    return BoxConsensus((x, y, w, h), tuple(agreeing))


def label_consensus(labels: Sequence[str]) -> str | None:
    """The most frequent label when two or more gave it and no other is as frequent; None: arbitration."""
    ranked = Counter(labels).most_common(2)
    if not ranked or ranked[0][1] < 2 or (len(ranked) > 1 and ranked[1][1] == ranked[0][1]):
        return None
    return ranked[0][0]


def same_objects(boxes_of: Sequence[Sequence[Sequence[float]]]) -> list[list[tuple[int, int]]]:
    """Which boxes of several annotators mean one object: lists of (annotator, box number).

    One annotator after the other is assigned to the objects so far by least total 1 − IoU with their first box; a box
    that overlaps none of them is a new object.
    """
    objects: list[list[tuple[int, int]]] = []
    for annotator, boxes in enumerate(boxes_of):
        if not boxes:
            continue
        assigned: dict[int, int] = {}
        if objects:
            first = [boxes_of[members[0][0]][members[0][1]] for members in objects]
            overlap = box_iou(first, boxes)
            rows, columns = linear_sum_assignment(1 - overlap)
            assigned = {int(c): int(r) for r, c in zip(rows, columns, strict=True) if overlap[r, c] > 0}
        for number in range(len(boxes)):
            if number in assigned:
                objects[assigned[number]].append((annotator, number))
            else:
                objects.append([(annotator, number)])
    return objects


def cohen_kappa(a: Sequence[str], b: Sequence[str]) -> float:
    """Agreement of two annotators beyond chance; NaN when both gave one label throughout."""
    names = sorted({*a, *b})
    first, second = Counter(a), Counter(b)
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / len(a)
    by_chance = sum(first[n] * second[n] for n in names) / len(a) ** 2
    return (observed - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


def fleiss_kappa(counts: ArrayLike) -> float:
    """Agreement of equally many annotators a subject, counts [subjects, categories]; NaN for one category."""
    table: Floats = np.asarray(counts, np.float64)
    raters = table.sum(axis=1)
    if not len(table) or raters.min() != raters.max() or raters[0] < 2:
        raise ValueError("every subject must have the same number of annotations, two or more")
    n = raters[0]
    observed = float(((table**2).sum(axis=1) - n).mean() / (n * (n - 1)))
    by_chance = float(((table.sum(axis=0) / table.sum()) ** 2).sum())
    return (observed - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan")


def mean_pairwise_iou(boxes: Sequence[Sequence[float]]) -> float:
    """Of one object's boxes; NaN for fewer than two."""
    overlap = box_iou(boxes, boxes)
    pairs = [overlap[pair] for pair in combinations(range(len(boxes)), 2)]
    return float(np.mean(pairs)) if pairs else float("nan")
