"""Boxes from single fields: how likely a field lies in the middle of a finding, and where that finding's sides are.

Both parts are linear in the features and convex: objectness by logistic regression, the box by ridge regression on
fields near the middle of a true box. Overlapping boxes are merged by our own suppression.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from panendofm.linear_probe.dense.config import FitConfig
from panendofm.linear_probe.dense.heads.layers import LinearHead, folded, standardization
from panendofm.linear_probe.dense.heads.segmentation import sampled_fields
from panendofm.linear_probe.dense.maps import Maps
from panendofm.linear_probe.heads.logistic import fit_logistic
from panendofm.scoring.detection.average_precision import COCO, average_precision, match_class
from panendofm.scoring.detection.boxes import Boxes, box_iou

Floats = NDArray[np.float64]
COLUMNS = 5  # objectness, middle x and y from the field, log width and height; in shares of the image
# A field counts as the middle of a box by a bell of this share of the box's half sides.
_BELL = 0.45
_NEAR = 0.3  # fields with so much of the bell teach where the sides are
_LOWEST_CONFIDENCE, _MOST_BOXES = 0.02, 50
SUPPRESS_IOU = 0.45
_FINEST_IOU = 0.75
# Of the ridge regression, against the sum of its fields' weights. One finding has many fields alike: more is needed
# than for objectness, and the two are chosen apart.
_RIDGE_STRENGTHS = (0.1, 0.3, 1.0, 3.0)
_LARGEST_LOG_SIZE = 0.5


def center_targets(boxes: Floats, grid: tuple[int, int]) -> tuple[Floats, Floats]:
    """Objectness [P] and box [P, 4] of each field; boxes [n, 4] are x, y, w, h in shares of the image."""
    rows, columns = grid
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    px, py = x.ravel(), y.ravel()
    objectness, target = np.zeros(len(px)), np.zeros((len(px), 4))
    for left, top, width, height in boxes:
        cx, cy = left + width / 2, top + height / 2
        # No narrower than the grid, so that small boxes have a field at all.
        sx, sy = max(_BELL * width / 2, 0.5 / columns), max(_BELL * height / 2, 0.5 / rows)
        bell = np.exp(-0.5 * (((px - cx) / sx) ** 2 + ((py - cy) / sy) ** 2))
        nearer = bell > objectness
        objectness = np.where(nearer, bell, objectness)
        own = np.stack([cx - px, cy - py, np.full_like(px, np.log(width)), np.full_like(px, np.log(height))], axis=1)
        target[nearer] = own[nearer]
    return objectness, target


def decode(outputs: Tensor, grid: tuple[int, int]) -> list[tuple[Floats, float]]:
    """Boxes (x, y, w, h in shares) with confidence, overlapping ones merged; outputs [5, rows, columns] of a class."""
    rows, columns = grid
    values = outputs.double().numpy().reshape(COLUMNS, -1)
    confidence = 1 / (1 + np.exp(-np.clip(values[0], -50, 50)))
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
    size = np.exp(np.clip(values[3:5], -5, _LARGEST_LOG_SIZE)).T  # [P, 2]
    middle = np.stack([x.ravel(), y.ravel()], axis=1) + values[1:3].T
    low, high = np.clip(middle - size / 2, 0, 1), np.clip(middle + size / 2, 0, 1)
    boxes = np.concatenate([low, high - low], axis=1)  # [P, 4]
    usable = (confidence >= _LOWEST_CONFIDENCE) & ((high - low).min(1) > 0)
    return suppress(boxes[usable], confidence[usable])


def suppress(boxes: Floats, confidence: Floats, iou: float = SUPPRESS_IOU) -> list[tuple[Floats, float]]:
    """The surest box of each heap, its sides the mean of the heap's weighted by confidence; the surest first."""
    order = np.argsort(-confidence, kind="stable")
    boxes, confidence = boxes[order], confidence[order]
    free = np.ones(len(boxes), bool)
    found = []
    for number in range(len(boxes)):
        if not free[number]:
            continue
        heap = free & (box_iou(boxes[number], boxes)[0] >= iou)
        heap[number] = True
        free &= ~heap
        weight = confidence[heap] ** 2
        found.append(((boxes[heap] * weight[:, None]).sum(0) / weight.sum(), float(confidence[number])))
        if len(found) == _MOST_BOXES:
            break
    return found


def train_center(
    maps: Maps,
    train: NDArray[np.int64],
    validation: NDArray[np.int64],
    boxes: Sequence[Sequence[Floats]],
    config: FitConfig,
) -> tuple[LinearHead, float, str]:
    """The head with the best boxes on validation, its mAP50 there, and its name. boxes[image][class]: [n, 4]."""
    grid, classes = maps.layout.grid, len(boxes[0])
    x, numbers = sampled_fields(maps, train, None, config.max_fields, config.seed)
    mean, scale = standardization(x)
    x = (x - mean) * scale
    per_class = [_targets(boxes, train, number, grid, numbers) for number in range(classes)]
    y = torch.stack([torch.from_numpy(o) for o, _ in per_class], dim=1).float()  # [n, K]
    strengths = config.strengths
    every = torch.tensor(strengths).repeat_interleave(classes)
    repeated = y.repeat(1, len(strengths))
    logistic = fit_logistic(x, repeated, torch.ones_like(repeated), every, config.tolerance, config.max_iterations)
    tried = []
    for ridge in _RIDGE_STRENGTHS:
        sides = [_ridge(x, y[:, c], torch.from_numpy(per_class[c][1]).float(), ridge) for c in range(classes)]
        for number, strength in enumerate(strengths):
            columns = [number * classes + c for c in range(classes)]
            weights = [part for c, k in enumerate(columns) for part in (logistic.weights[:, k : k + 1], sides[c][0])]
            biases = [part for c, k in enumerate(columns) for part in (logistic.biases[k : k + 1], sides[c][1])]
            head = folded(torch.cat(weights, dim=1), torch.cat(biases), mean, scale, None)
            description = f"center, λ = {strength:g}, sides {ridge:g}"
            tried.append((head, *validation_map(head, maps, validation, boxes), description))
    head, at_half, _, description = max(tried, key=lambda t: t[2])
    return head, at_half, description


def _targets(
    boxes: Sequence[Sequence[Floats]],
    rows: NDArray[np.int64],
    number: int,
    grid: tuple[int, int],
    fields: NDArray[np.int64],
) -> tuple[Floats, Floats]:
    parts = [center_targets(boxes[row][number], grid) for row in rows.tolist()]
    return np.concatenate([o for o, _ in parts])[fields], np.concatenate([b for _, b in parts])[fields]


def _ridge(x: Tensor, objectness: Tensor, target: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Weighted least squares on the fields near a middle: weights [D, 4] and biases [4]."""
    near = objectness >= _NEAR
    if int(near.sum()) < 4:
        return x.new_zeros(x.shape[1], 4), torch.tensor([0.0, 0.0, -1.5, -1.5])
    a, b, w = x[near].double(), target[near].double(), objectness[near].double()[:, None]
    a_mean, b_mean = (a * w).sum(0) / w.sum(), (b * w).sum(0) / w.sum()
    a, b = a - a_mean, b - b_mean
    penalty = strength * float(w.sum())
    if len(a) < a.shape[1]:  # the solution lies in the span of the rows
        root = w.sqrt()
        kernel = (a * root) @ (a * root).T + penalty * torch.eye(len(a), dtype=a.dtype)
        solution = (a * root).T @ torch.linalg.solve(kernel, b * root)
    else:
        solution = torch.linalg.solve((a * w).T @ a + penalty * torch.eye(a.shape[1], dtype=a.dtype), (a * w).T @ b)
    return solution.float(), (b_mean - a_mean @ solution).float()


def validation_map(
    head: LinearHead, maps: Maps, rows: NDArray[np.int64], boxes: Sequence[Sequence[Floats]]
) -> tuple[float, float]:
    """mAP50 (COCO) over classes on some images, and the mean over thresholds up to 0.75, a finer yardstick."""
    classes = len(boxes[0])
    found: list[list[tuple[int, Floats, float]]] = [[] for _ in range(classes)]
    true: list[list[tuple[int, Floats, float]]] = [[] for _ in range(classes)]
    for place, row in enumerate(rows.tolist()):
        outputs = head.logits(maps.of([row]), maps.layout.grid)[0]
        for c in range(classes):
            found[c] += [(place, b, s) for b, s in decode(outputs[c * COLUMNS : (c + 1) * COLUMNS], maps.layout.grid)]
            true[c] += [(place, b, 1.0) for b in boxes[row][c]]
    profile = COCO
    values = []
    for c in range(classes):
        matches = match_class(_boxes(true[c]), _boxes(found[c]), profile)
        by_threshold = [average_precision(m, profile.curve) for t, m in matches.items() if t <= _FINEST_IOU]
        if true[c]:
            values.append((by_threshold[0], float(np.mean(by_threshold))))
    if not values:
        return 0.0, 0.0
    return float(np.mean([v[0] for v in values])), float(np.mean([v[1] for v in values]))


def _boxes(rows: list[tuple[int, Floats, float]]) -> Boxes:
    return Boxes.of([(image, box.tolist(), confidence) for image, box, confidence in rows])
