from __future__ import annotations

import numpy as np
import pytest
import torch

from panendofm.backbone import Preprocessing
from panendofm.runtime.errors import UserError
from pretrain.data.batch import collate, make_batch, normalize


def sample(image: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Crops whose pixels tell (image, crop)."""
    global_crops = [np.full((4, 4, 3), 10 * image + crop, np.uint8) for crop in range(2)]
    local_crops = [np.full((2, 2, 3), 100 + 10 * image + crop, np.uint8) for crop in range(3)]
    return global_crops, local_crops


def test_collation_is_crop_major() -> None:
    batch = collate([sample(i) for i in range(4)], np.zeros((8, 4), dtype=bool))
    assert batch.global_crops[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 1, 11, 21, 31]
    assert batch.local_crops[:, 0, 0, 0].tolist() == [100 + 10 * i + crop for crop in range(3) for i in range(4)]
    assert batch.global_crops.shape == (8, 3, 4, 4) and batch.images == 4 and batch.local_crops_per_image == 3


def test_channels_come_first() -> None:
    crop = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    batch = collate([([crop, crop], [])], np.zeros((2, 4), dtype=bool), local_px=98)
    assert torch.equal(batch.global_crops[0], torch.from_numpy(crop.transpose(2, 0, 1)))
    assert batch.local_crops.shape == (0, 3, 98, 98) and batch.local_crops_per_image == 0


def test_masked_positions_and_weights() -> None:
    masks = np.zeros((4, 6), dtype=bool)
    masks[1, [0, 5]] = True
    masks[3, [2, 3, 4, 5]] = True
    batch = collate([sample(0), sample(1)], masks)
    assert batch.masked_positions.tolist() == [6, 11, 20, 21, 22, 23]
    assert batch.masked_weights.tolist() == [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert batch.masked_weights.dtype == torch.float32


def test_normalized_on_the_device() -> None:
    batch = collate([sample(1), sample(2)], np.zeros((4, 4), dtype=bool)).to("cpu")
    expected = (10 / 255 - np.array(Preprocessing.mean)) / np.array(Preprocessing.std)
    np.testing.assert_allclose(batch.global_crops[0, :, 0, 0].numpy(), expected, rtol=1e-5)
    assert batch.global_crops.dtype == torch.float32
    assert torch.equal(normalize(batch.global_crops), batch.global_crops)  # floats are taken as normalized


def test_uneven_batches_are_refused() -> None:
    globals_, masks = torch.zeros(4, 3, 4, 4), np.zeros((4, 4), dtype=bool)
    with pytest.raises(UserError, match="3 local crops do not divide evenly over 2 images"):
        make_batch(globals_, torch.zeros(3, 3, 2, 2), masks)
    with pytest.raises(UserError, match="two global crops per image"):
        make_batch(globals_[:3], torch.zeros(0, 3, 2, 2), masks[:3])
    with pytest.raises(UserError, match="give one mask per crop"):
        make_batch(globals_, torch.zeros(0, 3, 2, 2), masks[:2])
    with pytest.raises(UserError, match="at least one image"):
        collate([], masks)
