"""From an image to the grid of its feature map and back: plain scaling, as images are squashed, not cropped."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import mask_components

Floats = NDArray[np.float32]
# Parts that cover less of the image than this are no finding.
MIN_PART_SHARE = 0.001


def shares_on_grid(masks: NDArray[np.bool_], grid: tuple[int, int]) -> Floats:
    """Share of each field of the grid that a mask covers: [K, H, W] → [K, rows, columns], exact areas."""
    rows, columns = grid
    weights_y, weights_x = _area_weights(masks.shape[1], rows), _area_weights(masks.shape[2], columns)
    return np.asarray(np.einsum("rh,khw,cw->krc", weights_y, masks.astype(np.float32), weights_x, optimize=True))


def _area_weights(pixels: int, fields: int) -> Floats:
    """[fields, pixels]: how much each pixel counts in the mean of each field; also where a field is below a pixel."""
    edges = np.linspace(0, pixels, fields + 1)
    left, right = np.arange(pixels)[None, :], np.arange(1, pixels + 1)[None, :]
    common = np.minimum(right, edges[1:, None]) - np.maximum(left, edges[:-1, None])
    weights = np.clip(common, 0, None)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def enlarge(maps: Floats, height: int, width: int) -> Floats:
    """Bilinear, fields counting at their middles: [K, rows, columns] → [K, H, W]."""
    return np.stack([cv2.resize(m, (width, height), interpolation=cv2.INTER_LINEAR) for m in maps])


def cut(probabilities: Floats, thresholds: Sequence[float]) -> NDArray[np.bool_]:
    """Masks [K, H, W] of probabilities [K, H, W], without parts that are too small."""
    masks = np.zeros(probabilities.shape, bool)
    for number, threshold in enumerate(thresholds):
        above = (probabilities[number] >= threshold).astype(np.uint8)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(above, connectivity=8)
        keep = stats[:, cv2.CC_STAT_AREA] >= MIN_PART_SHARE * above.size
        keep[0] = False  # the background
        masks[number] = keep[labels] if count > 1 else False
    return masks


def boxes_of_parts(mask: NDArray[np.bool_], probability: Floats) -> list[tuple[tuple[float, ...], float]]:
    """The connected parts of a mask [H, W] as boxes (x, y, w, h) with their mean probability."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    found: list[tuple[tuple[float, ...], float]] = []
    for part in mask_components(mask, MIN_PART_SHARE):
        x1, y1, x2, y2 = part.box
        window = labels[y1:y2, x1:x2]
        # A window may hold a corner of a neighbor: the part is the label that fills it most.
        number = np.bincount(window[window > 0]).argmax()
        confidence = float(probability[y1:y2, x1:x2][window == number].mean())
        found.append(((float(x1), float(y1), float(x2 - x1), float(y2 - y1)), min(max(confidence, 0.0), 1.0)))
    return found
