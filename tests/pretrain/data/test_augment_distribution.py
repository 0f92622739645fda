"""The augmentation's random values against the stated parameters and against torchvision's draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from recipes import recipe

from panendofm.backbone.torchvision_shim import ensure_torchvision
from pretrain.data.augment import AugmentConfig, AugmentParams, draw_params

WIDTH, HEIGHT = 512, 430
IMAGES = 3000


def params_of(config: AugmentConfig) -> list[AugmentParams]:
    return [draw_params(config, WIDTH, HEIGHT, seed=1, epoch=0, key=i) for i in range(IMAGES)]


@pytest.fixture(scope="module")
def params() -> list[AugmentParams]:
    return params_of(AugmentConfig())


def field(params: list[AugmentParams], name: str) -> np.ndarray:
    return np.stack([getattr(drawn, name) for drawn in params])  # [params, crops, ...]


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    """Mean within 4 standard errors, spread within 4 % of a uniform distribution's, nothing outside."""
    spread = (high - low) / math.sqrt(12)
    assert values.min() >= low and values.max() <= high
    assert abs(values.mean() - (low + high) / 2) < 4 * spread / math.sqrt(values.size)
    assert values.std() == pytest.approx(spread, rel=0.04)


def assert_rate(values: np.ndarray, probability: float) -> None:
    error = math.sqrt(probability * (1 - probability) / values.size)
    assert abs(values.mean() - probability) <= 4 * error


def test_local_crops_have_uniform_area_and_log_uniform_aspect(params: list[AugmentParams]) -> None:
    boxes = field(params, "boxes")[:, 2:].reshape(-1, 4)
    width, height = boxes[:, 2], boxes[:, 3]
    # Sides are whole pixels: an area may miss its range by a few per mille.
    assert_uniform(width * height / (WIDTH * HEIGHT), 0.05 - 5e-4, 0.32 + 2e-3)
    assert_uniform(np.log(width / height), math.log(3 / 4) - 0.01, math.log(4 / 3) + 0.01)
    assert_uniform(boxes[:, 0] / (WIDTH - width), 0, 1)
    assert_uniform(boxes[:, 1] / (HEIGHT - height), 0, 1)


def test_boxes_are_distributed_as_torchvisions(params: list[AugmentParams]) -> None:
    """Global crops often do not fit at first: the tries change the distribution, and must change it alike."""
    ensure_torchvision()
    import torch
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    image = torch.empty(3, HEIGHT, WIDTH)
    theirs = np.array([RandomResizedCrop.get_params(image, [0.32, 1.0], [3 / 4, 4 / 3]) for _ in range(2 * IMAGES)])
    ours = field(params, "boxes")[:, :2].reshape(-1, 4)[:, [1, 0, 3, 2]]  # top, left, height, width
    for quantity in (lambda b: b[:, 2] * b[:, 3], lambda b: b[:, 3] / b[:, 2], lambda b: b[:, 0], lambda b: b[:, 1]):
        a, b = quantity(ours), quantity(theirs)
        assert abs(a.mean() - b.mean()) < 4 * math.hypot(a.std(), b.std()) / math.sqrt(len(a))
        assert a.std() == pytest.approx(b.std(), rel=0.05)


def test_narrow_image_falls_back_to_the_central_box() -> None:
    drawn = draw_params(AugmentConfig(local_crops=0), 1000, 10, 0, 0, "narrow")
    assert drawn.boxes.tolist() == [[(1000 - 13) // 2, 0, 13, 10]] * 2


def test_jitter_factors(params: list[AugmentParams]) -> None:
    factors = field(params, "factors").reshape(-1, 4)
    for column, (low, high) in enumerate([(0.6, 1.4), (0.6, 1.4), (0.8, 1.2), (-0.1, 0.1)]):
        assert_uniform(factors[:, column], low, high)
    order = field(params, "jitter_order").reshape(-1, 4)
    for operation in range(4):
        for place in range(4):
            assert_rate(order[:, place] == operation, 0.25)


def test_rates(params: list[AugmentParams]) -> None:
    assert_rate(field(params, "jitter"), 0.8)
    assert_rate(field(params, "grayscale"), 0.2)
    assert_rate(field(params, "flip_horizontal"), 0.5)
    assert not field(params, "flip_vertical").any() and not field(params, "transpose").any()
    solarize = field(params, "solarize")
    assert_rate(solarize[:, 1], 0.2)
    assert not solarize[:, 0].any() and not solarize[:, 2:].any()


@pytest.mark.parametrize(("blur", "rates"), [("as_released", (0.0, 0.9, 0.5)), ("as_documented", (1.0, 0.1, 0.5))])
def test_blur_rates_and_sigma(blur: str, rates: tuple[float, float, float]) -> None:
    sigma = field(params_of(AugmentConfig(blur=blur)), "blur_sigma_px")
    for crops, rate in zip((sigma[:, 0], sigma[:, 1], sigma[:, 2:]), rates, strict=True):
        assert_rate(crops > 0, rate)
    assert_uniform(sigma[sigma > 0], 0.1, 2.0)


def test_operations_are_independent(params: list[AugmentParams]) -> None:
    columns = [field(params, "factors")[..., i].ravel() for i in range(4)]
    columns += [field(params, name).ravel() for name in ("jitter", "grayscale", "flip_horizontal")]
    columns += [field(params, "boxes")[..., i].ravel() for i in (0, 1)]
    correlation = np.corrcoef(np.stack(columns).astype(float)) - np.eye(len(columns))
    # Left and top are alike: both have more room in a small crop. All else is unrelated.
    correlation[-1, -2] = correlation[-2, -1] = 0
    assert np.abs(correlation).max() < 4 / math.sqrt(columns[0].size)


def test_endoscopy_recipe_turns_and_hue() -> None:
    config = recipe("endoscopy")
    params = params_of(config)
    symmetry = np.stack([field(params, n) for n in ("transpose", "flip_horizontal", "flip_vertical")], axis=-1)
    code = symmetry.reshape(-1, 3) @ [4, 2, 1]
    for one_of_eight in range(8):
        assert_rate(code == one_of_eight, 1 / 8)
    assert_uniform(field(params, "factors")[..., 3].ravel(), -0.02, 0.02)
