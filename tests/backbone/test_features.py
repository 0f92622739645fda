"""Features on one process, and the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.backbone.feature_cache import FeatureCache, FeatureKey
from panendofm.backbone.features import FeatureKind, extract_features
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.imaging.images import UnreadableImageError
from panendofm.runtime.errors import UserError

SMALL = Preprocessing(resize_px=64, crop_px=56)


@pytest.fixture(scope="module")
def image_paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for i in range(7):
        Image.fromarray(random.integers(0, 256, (70, 80, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def model() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(vit_config("vit_test"))


def test_every_image_once_in_order(model: VisionTransformer, image_paths: list[Path]) -> None:
    model.train()
    features = extract_features(model, image_paths, SMALL, batch_size=3)
    assert model.training, "the caller's mode is restored"
    model.eval()
    with torch.no_grad():
        expected = torch.cat([model(SMALL(path)[None]).cls for path in image_paths])
    assert features.dtype == torch.float32 and not features.requires_grad
    torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-5)


def test_kinds(model: VisionTransformer, image_paths: list[Path]) -> None:
    images = torch.stack([SMALL(path) for path in image_paths])
    features = extract_features(model, image_paths, SMALL, kind=FeatureKind(layers=2, patch_mean=True))
    with torch.no_grad():
        before, last = model.eval().intermediate(images, 2)
    expected = torch.cat([before.cls, last.cls, last.patches.mean(1)], dim=1)
    torch.testing.assert_close(features, expected, rtol=1e-5, atol=1e-5)


def test_plain_tensor_networks(image_paths: list[Path]) -> None:
    class Color(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.mean(dim=(2, 3))

    features = extract_features(Color(), image_paths, SMALL, batch_size=2)
    torch.testing.assert_close(features, torch.stack([SMALL(path).mean(dim=(1, 2)) for path in image_paths]))
    with pytest.raises(UserError, match="Color has no patch tokens"):
        extract_features(Color(), image_paths, SMALL, kind=FeatureKind(patch_mean=True))


def test_no_images(model: VisionTransformer) -> None:
    assert extract_features(model, [], SMALL).shape[0] == 0


def test_bad_image_is_named_and_the_mode_restored(
    model: VisionTransformer, image_paths: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")
    model.train()
    with pytest.raises(UnreadableImageError, match=r"bad\.jpg.*1 more"):
        extract_features(model, [*image_paths, tmp_path / "bad.jpg", tmp_path / "gone.jpg"], SMALL)
    assert model.training


def test_cache_computes_once_per_key(tmp_path: Path) -> None:
    cache, calls = FeatureCache(tmp_path / "cache"), []

    def compute() -> Tensor:
        calls.append(1)
        return torch.arange(6.0).reshape(2, 3) * len(calls)

    key = FeatureKey("w", "d", SMALL)
    first = cache.load_or_compute(key, compute)
    assert torch.equal(FeatureCache(tmp_path / "cache").load_or_compute(key, compute), first)
    assert len(calls) == 1
    others = [
        FeatureKey("W", "d", SMALL),
        FeatureKey("w", "D", SMALL),
        FeatureKey("w", "d", Preprocessing(64, 55)),
        FeatureKey("w", "d", SMALL, FeatureKind(layers=2)),
        FeatureKey("w", "d", SMALL, precision="bfloat16"),
    ]
    for number, other in enumerate(others, start=2):
        assert torch.equal(cache.load_or_compute(other, compute), first * number)
    assert len(calls) == 6


def test_damaged_entry_is_computed_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache, key = FeatureCache(tmp_path), FeatureKey("w", "d", SMALL)
    cache.store(key, torch.ones(50, 3))
    cache.path_of(key).write_bytes(cache.path_of(key).read_bytes()[:200])
    assert torch.equal(cache.load_or_compute(key, lambda: torch.zeros(2, 2)), torch.zeros(2, 2))
    assert "computed anew" in capsys.readouterr().out
    assert torch.equal(cache.load(key) + 1, torch.ones(2, 2))
