"""Which patches of the global crops the student does not see: random blocks, as iBOT and the reference draw them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pretrain.data.config import MaskConfig
from pretrain.randomness import numpy_generator

BoolArray = npt.NDArray[np.bool_]

_SMALLEST_BLOCK_PATCHES = 4
_LOWEST_ASPECT = 0.3
_TRIES_PER_BLOCK = 10


def masks_of_step(
    config: MaskConfig, crops: int, grid: tuple[int, int], seed: int, step: int, microgroup: int
) -> BoolArray:
    """The masks of one microgroup, [crops, rows·columns]: a pure function of (seed, step, microgroup)."""
    return draw_masks(config, crops, grid, numpy_generator(seed, "mask", step, microgroup))


def masks_of_batch(
    config: MaskConfig, microgroup_images: int, grid: tuple[int, int], seed: int, step: int, microgroups: range
) -> BoolArray:
    """The masks of several microgroups, crop-major over the whole batch of B images: [2B, rows·columns]."""
    b, G = microgroup_images, len(microgroups)
    drawn = [masks_of_step(config, 2 * b, grid, seed, step, number) for number in microgroups]  # each [2b, N]
    stacked = np.stack(drawn).reshape(G, 2, b, -1)  # [G, 2, b, N]
    return stacked.transpose(1, 0, 2, 3).reshape(2 * G * b, -1)


def draw_masks(config: MaskConfig, crops: int, grid: tuple[int, int], rng: np.random.Generator) -> BoolArray:
    """Masks for a batch of `crops` global crops, row-major, true = masked: [crops, rows·columns].

    int(crops · probability) of them are masked, the i-th with a share between r[i] and r[i+1] of the equally spaced
    ratios r; then all are shuffled.
    """
    rows, columns = grid
    masked = int(crops * config.crop_probability)
    ratios = np.linspace(config.ratio_min, config.ratio_max, masked + 1)
    masks = np.zeros((crops, rows * columns), dtype=np.bool_)
    for i in range(masked):
        target = int(rows * columns * rng.uniform(ratios[i], ratios[i + 1]))
        masks[i] = block_mask(target, grid, rng).ravel()
    return masks[rng.permutation(crops)]


def block_mask(target: int, grid: tuple[int, int], rng: np.random.Generator) -> BoolArray:
    """A mask of `target` patches or a few less, [rows, columns]: blocks are added until no try fits any more."""
    mask = np.zeros(grid, dtype=np.bool_)
    count = 0
    while count < target:
        added = _add_block(mask, min(target - count, mask.size // 2), rng)
        if added == 0:
            break
        count += added
    return mask


def _add_block(mask: BoolArray, most: int, rng: np.random.Generator) -> int:
    """Add one block of between 1 and `most` new patches to `mask`; the number of new patches, 0 when no try fits."""
    rows, columns = mask.shape
    log_aspect = math.log(1 / _LOWEST_ASPECT)
    for _ in range(_TRIES_PER_BLOCK):
        area = _SMALLEST_BLOCK_PATCHES + (most - _SMALLEST_BLOCK_PATCHES) * rng.random()
        aspect = math.exp(rng.uniform(-log_aspect, log_aspect))
        height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if height >= rows or width >= columns:
            continue
        top, left = rng.integers(rows - height + 1), rng.integers(columns - width + 1)
        block = mask[top : top + height, left : left + width]
        new = block.size - int(block.sum())
        if 0 < new <= most:
            block[:] = True
            return new
    return 0
