from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.data.config import MaskConfig
from pretrain.data.masking import block_mask, draw_masks, masks_of_step

GRID = (16, 16)


def test_mask_statistics_are_the_references(golden: Path) -> None:
    """Masked patches per target: means within four standard errors, spreads alike, short masks as often."""
    rng = np.random.default_rng(0)
    samples = 1500
    for target, expected in json.loads((golden / "mask_statistics_16x16.json").read_text()).items():
        counts = np.array([block_mask(int(target), GRID, rng).sum() for _ in range(samples)])
        error = expected["std"] * math.sqrt(1 / samples + 1 / 4000)
        assert abs(counts.mean() - expected["mean"]) < 4 * error
        assert counts.std() == pytest.approx(expected["std"], rel=0.3)
        assert counts.max() == expected["max"] == int(target)
        assert expected["min"] - 3 <= counts.min() < int(target)


def test_half_of_the_crops_are_masked_in_graded_ratios() -> None:
    masks = draw_masks(MaskConfig(), 64, GRID, np.random.default_rng(0))
    assert masks.shape == (64, 256) and masks.dtype == np.bool_
    counts = np.sort(masks.sum(axis=1))
    assert (counts[:32] == 0).all() and (counts[32:] > 0).all()
    edges = np.linspace(0.1, 0.5, 33) * 256
    assert (counts[32:] <= edges[1:]).all() and (counts[32:] >= np.floor(edges[:-1]) - 6).all()
    assert not (np.diff(masks.any(axis=1).astype(int)) >= 0).all()  # shuffled, not sorted


def test_masks_are_blocks() -> None:
    """Random single patches would have few masked neighbors."""
    masks = draw_masks(MaskConfig(), 64, GRID, np.random.default_rng(0)).reshape(64, *GRID)
    masks = masks[masks.any(axis=(1, 2))]
    neighbors = (masks[:, :, 1:] & masks[:, :, :-1]).sum() / masks.sum()
    assert neighbors > 0.65  # single patches at random: about 0.3


def test_masks_depend_on_seed_step_and_rank_alone() -> None:
    def masks(seed: int, step: int, rank: int) -> bytes:
        return masks_of_step(MaskConfig(), 8, GRID, seed, step, rank).tobytes()

    assert masks(0, 5, 1) == masks(0, 5, 1)
    assert len({masks(0, 5, 1), masks(1, 5, 1), masks(0, 6, 1), masks(0, 5, 2), masks(0, 1, 5), masks(5, 1, 0)}) == 6


@pytest.mark.parametrize(("crops", "probability", "masked"), [(2, 0.5, 1), (1, 0.5, 0), (8, 0.0, 0), (4, 1.0, 4)])
def test_small_batches(crops: int, probability: float, masked: int) -> None:
    masks = draw_masks(MaskConfig(crop_probability=probability), crops, GRID, np.random.default_rng(0))
    assert masks.any(axis=1).sum() == masked


def test_tiny_and_oblong_grids() -> None:
    rng = np.random.default_rng(0)
    for grid in ((2, 2), (4, 4), (3, 9), (1, 1)):
        for _ in range(50):
            mask = block_mask(grid[0] * grid[1] // 2, grid, rng)
            assert mask.shape == grid and mask.sum() <= grid[0] * grid[1] // 2


def test_contradictions_are_refused() -> None:
    with pytest.raises(UserError, match=r"masks\.ratio_min=0\.6 must not be above masks\.ratio_max=0\.5"):
        load_config(MaskConfig, None, ["ratio_min=0.6"])
    with pytest.raises(UserError, match="'crop_probability' is"):
        load_config(MaskConfig, None, ["crop_probability=2.0"])
