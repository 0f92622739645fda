"""Pre-processing gives torchvision's numbers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from panendofm.backbone.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.imaging.images import UnreadableImageError, open_image
from panendofm.runtime.errors import UserError


@pytest.fixture(scope="module")
def transforms() -> ModuleType:
    ensure_torchvision()
    from torchvision import transforms

    return transforms


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


@pytest.mark.parametrize("size", [(640, 512), (333, 257), (256, 256), (224, 900), (40, 31), (1021, 719)])
@pytest.mark.parametrize(("resize_px", "crop_px"), [(256, 224), (64, 57), (100, 130)])
def test_equals_torchvision(transforms: ModuleType, size: tuple[int, int], resize_px: int, crop_px: int) -> None:
    image = noise(*size)
    theirs = transforms.Compose(
        [
            transforms.Resize(resize_px, transforms.InterpolationMode.BICUBIC, antialias=True),
            transforms.CenterCrop(crop_px),
            transforms.ToTensor(),
            transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ]
    )(image)
    ours = Preprocessing(resize_px, crop_px)(image)
    assert ours.shape == (3, crop_px, crop_px) and ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_path_and_image_agree_and_gray_becomes_rgb(tmp_path: Path) -> None:
    image = noise(300, 280, "L")
    image.save(tmp_path / "grey.png")
    from_path = Preprocessing()(tmp_path / "grey.png")
    assert torch.equal(from_path, Preprocessing()(image))
    color = from_path * torch.tensor(IMAGENET_STD)[:, None, None] + torch.tensor(IMAGENET_MEAN)[:, None, None]
    torch.testing.assert_close(color[0], color[2])


def test_survives_json() -> None:
    ours = Preprocessing(100, 90, "bilinear", (0.5, 0.5, 0.5), (0.2, 0.3, 0.4))
    again = Preprocessing.from_dict(json.loads(json.dumps(ours.to_dict())))
    assert again == ours and hash(again) == hash(ours)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"crop_px": 0}, "crop_px"),
        ({"interpolation": "cubic"}, "cubic"),
        ({"std": [1, 1, 0]}, "std"),
        ({"crop": 224}, "'crop'"),
    ],
)
def test_wrong_values_are_named(values: dict[str, object], word: str) -> None:
    with pytest.raises(UserError, match=word):
        Preprocessing.from_dict(values)


def test_damaged_images_are_named(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    noise(200, 200).save(buffer, "JPEG")
    half, text, empty = tmp_path / "half.jpg", tmp_path / "text.jpg", tmp_path / "empty.png"
    half.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    text.write_text("not an image")
    empty.touch()
    for path in (half, text, empty, tmp_path / "absent.jpg"):
        with pytest.raises(UnreadableImageError, match=path.name):
            open_image(path)
