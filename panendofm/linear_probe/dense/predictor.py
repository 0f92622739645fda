"""An image's feature map → masks and boxes in pixels of the image itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from panendofm.linear_probe.dense.config import CENTER
from panendofm.linear_probe.dense.geometry import boxes_of_parts, cut, enlarge
from panendofm.linear_probe.dense.heads.detection_head import COLUMNS, decode
from panendofm.linear_probe.dense.heads.layers import Head, LinearHead

COMPONENTS = "components"
Found = tuple[int, tuple[float, ...], float]  # class, (x, y, w, h), confidence


@dataclass(frozen=True)
class DenseHeads:
    """What was trained for a network: a segmentation head with its thresholds and, where asked for, one for boxes."""

    kind: str
    segmentation: Head
    thresholds: tuple[float, ...]  # [K]
    detection: LinearHead | None = None
    detect_with: str = COMPONENTS  # the better one on validation


@dataclass(frozen=True)
class Prediction:
    probability: NDArray[np.float32]  # [K, H, W]
    masks: NDArray[np.bool_]  # [K, H, W]
    boxes: dict[str, list[Found]]  # by detector


@torch.no_grad()
def predict_image(heads: DenseHeads, maps: Tensor, grid: tuple[int, int], height: int, width: int) -> Prediction:
    """maps [1, P, C] of one image."""
    shares = torch.sigmoid(heads.segmentation.logits(maps, grid))[0].numpy()
    probability = enlarge(shares, height, width)
    masks = cut(probability, heads.thresholds)
    boxes: dict[str, list[Found]] = {COMPONENTS: []}
    for number in range(len(masks)):
        boxes[COMPONENTS] += [(number, box, sure) for box, sure in boxes_of_parts(masks[number], probability[number])]
    if heads.detection is not None:
        outputs = heads.detection.logits(maps, grid)[0]
        scale = np.array([width, height, width, height], np.float64)
        boxes[CENTER] = [
            (number, tuple((box * scale).tolist()), sure)
            for number in range(len(masks))
            for box, sure in decode(outputs[number * COLUMNS : (number + 1) * COLUMNS], grid)
        ]
    return Prediction(probability, masks, boxes)
