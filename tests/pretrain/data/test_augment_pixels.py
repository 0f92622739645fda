"""What the augmentation does to pixels: against Pillow and torchvision, and our two paths against each other."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image
from recipes import recipe

from panendofm.backbone.torchvision_shim import ensure_torchvision
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.data.augment import AugmentConfig, AugmentParams, augment_jpeg, crops_of, draw_params, prepare_jpeg
from pretrain.data.augment.cpu import cut, spare_resolution
from pretrain.data.augment.field_of_view import find_field_of_view
from pretrain.data.augment.params import BRIGHTNESS, CONTRAST, HUE, SATURATION
from pretrain.data.augment.photometric import colored, plan_of
from pretrain.data.batch import collate

SMALL = {"global_px": 84, "local_px": 42, "local_crops": 3}


def draw_image(width: int = 256, height: int = 215, seed: int = 0) -> np.ndarray:
    """A smooth colorful image with edges and highlights, [H, W, 3]."""
    rng = np.random.default_rng(seed)
    image = cv2.resize(rng.integers(0, 256, (9, 11, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    cv2.rectangle(image, (width // 5, height // 4), (width // 2, height // 2), (250, 240, 235), -1)
    cv2.circle(image, (2 * width // 3, height // 2), height // 5, (20, 180, 160), 3)
    return image


def endoscopic_frame(width: int = 320, height: int = 256) -> np.ndarray:
    """A bright disc with a dark lumen in it on a black frame, and a line of text beside it."""
    frame = np.full((height, width, 3), 6, np.uint8)
    cv2.circle(frame, (200, 128), 110, (200, 90, 80), -1)
    cv2.circle(frame, (210, 120), 30, (5, 3, 3), -1)
    cv2.putText(frame, "ID 12", (5, 30), cv2.FONT_HERSHEY_PLAIN, 1.0, (255, 255, 255))
    return frame


def jpeg(image: np.ndarray) -> bytes:
    return simplejpeg.encode_jpeg(np.ascontiguousarray(image), quality=95)


def quiet_params(config: AugmentConfig, image: np.ndarray, **changes: Any) -> AugmentParams:
    """Parameters of crops without any other operation, then with the given fields."""
    n, drawn = config.crops, draw_params(config, image.shape[1], image.shape[0], 0, 0, 0)
    off = np.zeros(n, dtype=bool)
    names = ("transpose", "flip_horizontal", "flip_vertical", "jitter", "grayscale", "solarize")
    return replace(drawn, **dict.fromkeys(names, off), blur_sigma_px=np.zeros(n), **changes)


def difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a.astype(int) - np.asarray(b).astype(int))


@pytest.mark.parametrize("path", ["cpu", "tensor"])
def test_resize_is_pillows_bicubic(path: str) -> None:
    image, config = draw_image(), AugmentConfig(**SMALL)
    drawn = quiet_params(config, image)
    crops = apply(path, image, drawn, config)
    for crop, (x, y, w, h) in zip(crops, drawn.boxes, strict=True):
        expected = Image.fromarray(image).crop((x, y, x + w, y + h)).resize(crop.shape[:2], Image.Resampling.BICUBIC)
        assert difference(crop, expected).max() <= 2  # of 255


def apply(path: str, image: np.ndarray, drawn: AugmentParams, config: AugmentConfig) -> list[np.ndarray]:
    if path == "cpu":
        global_crops, local_crops = crops_of(image, drawn, config)
        return [*global_crops, *local_crops]
    return [crop.permute(1, 2, 0).numpy() for kind in in_batches([image], [drawn], config) for crop in kind]


def in_batches(
    images: list[np.ndarray], params: list[AugmentParams], config: AugmentConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cut as workers do, collated, and colored as the device does, on tensors of the CPU: [2B, 3, G, G], [L·B, …]."""
    samples = [cut(image, drawn, config) for image, drawn in zip(images, params, strict=True)]
    masks = np.zeros((2 * len(images), 1), dtype=bool)
    batch = collate(samples, masks, config.local_px)
    plans = [plan_of(params, crops, config) for crops in (slice(0, 2), slice(2, None))]
    return colored(batch.global_crops, plans[0]), colored(batch.local_crops, plans[1])


@pytest.mark.parametrize("path", ["cpu", "tensor"])
@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        (BRIGHTNESS, 0.62),
        (BRIGHTNESS, 1.4),
        (CONTRAST, 0.6),
        (CONTRAST, 1.38),
        (SATURATION, 0.8),
        (SATURATION, 1.2),
        (HUE, 0.1),
        (HUE, -0.08),
    ],
)
def test_jitter_operations_are_torchvisions(path: str, operation: int, factor: float) -> None:
    ensure_torchvision()
    from torchvision.transforms import functional

    adjust = {
        BRIGHTNESS: functional.adjust_brightness,
        CONTRAST: functional.adjust_contrast,
        SATURATION: functional.adjust_saturation,
        HUE: functional.adjust_hue,
    }[operation]
    image, config = draw_image(), AugmentConfig(**SMALL)
    neutral = [1.0, 1.0, 1.0, 0.0]
    factors = [factor if o == operation else neutral[o] for o in range(4)]
    before = apply(path, image, quiet_params(config, image), config)
    drawn = quiet_params(config, image)
    order = [operation, *[o for o in range(4) if o != operation]]
    drawn = replace(
        drawn,
        jitter=np.ones(config.crops, dtype=bool),
        jitter_order=np.array([order] * config.crops),
        factors=np.array([factors] * config.crops),
    )
    for crop, plain in zip(apply(path, image, drawn, config), before, strict=True):
        expected = adjust(Image.fromarray(plain), factor)
        assert difference(crop, expected).mean() < 1.2
        assert difference(plain, expected).mean() > 3  # the operation does something here


@pytest.mark.parametrize("path", ["cpu", "tensor"])
def test_blur_grayscale_solarize_are_torchvisions(path: str) -> None:
    ensure_torchvision()
    from torchvision.transforms import functional

    image, config = draw_image(), AugmentConfig(**SMALL)
    n = config.crops
    cases: list[tuple[dict[str, np.ndarray], Callable[[Image.Image], Any]]] = [
        ({"blur_sigma_px": np.full(n, 1.3)}, lambda x: functional.gaussian_blur(x, [9, 9], [1.3, 1.3])),
        ({"blur_sigma_px": np.full(n, 0.1)}, lambda x: functional.gaussian_blur(x, [9, 9], [0.1, 0.1])),
        ({"grayscale": np.ones(n, dtype=bool)}, lambda x: functional.rgb_to_grayscale(x, 3)),
        ({"solarize": np.ones(n, dtype=bool)}, lambda x: functional.solarize(x, 128)),
    ]
    plain = apply(path, image, quiet_params(config, image), config)
    for changes, expected in cases:
        drawn = replace(quiet_params(config, image), **changes)
        for crop, before in zip(apply(path, image, drawn, config), plain, strict=True):
            error = difference(crop, expected(Image.fromarray(before)))
            assert error.mean() < 0.6 and np.quantile(error, 0.999) <= 2


@pytest.mark.parametrize("preset", ["reference", "endoscopy"])
def test_both_paths_agree(preset: str) -> None:
    """The same parameters on the CPU and in a batch, images of different sizes."""
    config = recipe(preset, **SMALL)
    images = [draw_image(256, 215, 1), draw_image(180, 200, 2), draw_image(300, 120, 3)]
    params = [draw_params(config, i.shape[1], i.shape[0], 0, 0, k) for k, i in enumerate(images)]
    batched = in_batches(images, params, config)
    assert batched[0].shape == (6, 3, 84, 84) and batched[1].shape == (9, 3, 42, 42)
    for k, (image, drawn) in enumerate(zip(images, params, strict=True)):
        for kind, crops in zip(batched, crops_of(image, drawn, config), strict=True):
            for j, crop in enumerate(crops):
                found = kind[j * len(images) + k].permute(1, 2, 0).numpy()  # crop-major
                assert difference(found, crop).mean() < 1.2


@pytest.mark.parametrize("preset", ["reference", "endoscopy"])
def test_both_paths_give_the_same_images(preset: str) -> None:
    """240 crops with the same draws. One path rounds to bytes after every operation, the other at the end.

    Bounds, in levels of 255: 0.6 on average, 1.2 in any crop, 5 for 99 pixels of 100, no drift beyond 0.1; and of what
    an image looks like (brightness, contrast, saturation, hue, sharpness) 2% of how much crops differ in it.
    """
    config = recipe(preset, **SMALL)
    images = [draw_image(256, 215, seed) for seed in range(48)]
    params = [draw_params(config, 256, 215, 0, 0, k) for k in range(len(images))]
    batched = [kind.permute(0, 2, 3, 1).numpy() for kind in in_batches(images, params, config)]
    ours: list[np.ndarray] = [crop for kind in batched for crop in kind]  # crop-major
    by_image = [apply("cpu", image, drawn, config) for image, drawn in zip(images, params, strict=True)]
    theirs = [crops[j] for j in range(config.crops) for crops in by_image]
    errors = [a.astype(int) - b.astype(int) for a, b in zip(ours, theirs, strict=True)]
    every = np.concatenate([error.ravel() for error in errors])
    assert np.abs(every).mean() < 0.6
    assert max(np.abs(error).mean() for error in errors) < 1.2
    assert np.quantile(np.abs(every), 0.99) <= 5
    assert abs(every.mean()) < 0.1
    x, y = (np.array([statistics_of(crop) for crop in crops]) for crops in (ours, theirs))  # [crops, statistics]
    assert (np.abs((x - y).mean(0)) < 0.02 * y.std(0)).all(), (x - y).mean(0) / y.std(0)


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_statistics_of_finished_crops_are_the_references(where: str) -> None:
    """Against the recipe in Pillow and torchvision, end to end: brightness, contrast, saturation, hue, sharpness."""
    from benchmarks.augment import reference_recipe

    config = AugmentConfig(global_px=56, local_px=28, local_crops=2, where=where)
    torch.manual_seed(0)
    data = [jpeg(draw_image(160, 136, seed)) for seed in range(4)]
    reference = reference_recipe(config)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    theirs: list[list[np.ndarray]] = [[], [], []]
    ours: list[list[np.ndarray]] = [[], [], []]
    for i in range(200):
        crops = [(c.permute(1, 2, 0).numpy() * std + mean) * 255 for c in reference(data[i % 4])]
        own = finished(data[i % 4], config, i)
        for kind in range(3):
            theirs[kind].append(crops[kind])
            ours[kind].append(own[kind])
    for a, b in zip(ours, theirs, strict=True):
        x = np.array([statistics_of(crop) for crop in a])  # [crops, statistics]
        y = np.array([statistics_of(crop) for crop in b])
        error = np.hypot(x.std(0), y.std(0)) / np.sqrt(len(x))
        assert (np.abs(x.mean(0) - y.mean(0)) < 4 * error).all(), (x.mean(0), y.mean(0), error)
        assert (np.abs(np.log(x.std(0) / y.std(0))) < 0.35).all(), (x.std(0), y.std(0))


def finished(data: bytes, config: AugmentConfig, key: int) -> list[np.ndarray]:
    """The crops of an image, by the path that the config names."""
    (global_crops, local_crops), drawn = prepare_jpeg(data, config, 0, 0, key)
    if config.where == "cpu":
        return [*global_crops, *local_crops]
    kinds = [torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2) for crops in (global_crops, local_crops)]
    plans = [plan_of([drawn], crops, config) for crops in (slice(0, 2), slice(2, None))]
    return [
        crop.permute(1, 2, 0).numpy() for kind, plan in zip(kinds, plans, strict=True) for crop in colored(kind, plan)
    ]


def statistics_of(crop: np.ndarray) -> list[float]:
    image = np.clip(np.rint(crop), 0, 255).astype(np.uint8)
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV_FULL)
    hue = hsv[..., 0] * (2 * np.pi / 256)
    sharpness = np.log1p(cv2.Laplacian(gray, cv2.CV_32F).var())
    return [gray.mean(), gray.std(), hsv[..., 1].mean(), np.cos(hue).mean(), np.sin(hue).mean(), sharpness]


def test_turns_are_rotations() -> None:
    config = recipe("endoscopy", **SMALL, horizontal_flip_probability=0.0, vertical_flip_probability=0.0)
    image = draw_image()
    plain = crops_of(image, quiet_params(config, image), config)
    seen = set()
    for key in range(20):
        drawn = draw_params(config, image.shape[1], image.shape[0], 0, 0, key)
        names = ("transpose", "flip_horizontal", "flip_vertical")
        turned = replace(quiet_params(config, image), **{name: getattr(drawn, name) for name in names})
        for crop, before in zip(crops_of(image, turned, config)[0], plain[0], strict=True):
            same = [k for k in range(4) if np.array_equal(crop, np.rot90(before, k))]
            assert len(same) == 1
            seen.add(same[0])
    assert seen == {0, 1, 2, 3}


def test_crops_stay_within_the_field_of_view() -> None:
    frame = endoscopic_frame()
    found = find_field_of_view(frame)
    # The disc spans 90…310 × 18…238; the grid's cells are 5 px wide.
    assert abs(found.left - 90) <= 6 and abs(found.left + found.width - 310) <= 6
    assert abs(found.top - 18) <= 6 and abs(found.top + found.height - 238) <= 6
    config = recipe("endoscopy")
    inside, total = 0, 0
    disc = cv2.circle(np.zeros(frame.shape[:2], np.uint8), (200, 128), 110, 1, -1)
    for key in range(200):
        boxes = draw_params(config, 320, 256, 0, 0, key, found).boxes
        assert (boxes[:, 0] >= found.left).all() and (boxes[:, 0] + boxes[:, 2] <= found.left + found.width).all()
        assert (boxes[:, 1] >= found.top).all() and (boxes[:, 1] + boxes[:, 3] <= found.top + found.height).all()
        for x, y, w, h in boxes[2:]:
            inside += disc[y : y + h, x : x + w].mean() >= config.field_of_view_share_min - 0.05
            total += 1
    assert inside / total > 0.98


def test_dark_frame_is_taken_whole() -> None:
    found = find_field_of_view(np.full((100, 200, 3), 4, np.uint8))
    assert (found.left, found.top, found.width, found.height) == (0, 0, 200, 100)


def test_real_frames_lose_their_black_border(real_images: Path) -> None:
    paths = sorted((real_images / "kvasir8").glob("*/*.jpg"))[::16]
    dark: dict[str, list[float]] = {"reference": [], "endoscopy": []}
    for path in paths:
        for preset, shares in dark.items():
            config = recipe(preset, **SMALL, jitter_probability=0.0, solarize_probability=0.0)
            crops = augment_jpeg(path.read_bytes(), config, 0, 0, path.name)[0]
            shares.extend((crop.max(axis=2) < 20).mean() for crop in crops)
    assert np.mean(dark["endoscopy"]) < 0.7 * np.mean(dark["reference"]), {k: np.mean(v) for k, v in dark.items()}


def test_randomness_is_a_function_of_seed_epoch_and_key() -> None:
    config, data = AugmentConfig(**SMALL), jpeg(draw_image())

    def fingerprint(*identity: Any) -> bytes:
        return b"".join(crop.tobytes() for kind in augment_jpeg(data, config, *identity) for crop in kind)

    first = fingerprint(7, 3, "frame_12")
    np.random.seed(1)
    torch.manual_seed(1)
    fingerprint(7, 3, "another")  # what ran before does not matter
    assert fingerprint(7, 3, "frame_12") == first
    changed = ((8, 3, "frame_12"), (7, 4, "frame_12"), (7, 3, "frame_13"), (73, 3, "frame_12"))
    others = [fingerprint(*identity) for identity in changed]
    assert len({first, *others}) == 5


def test_large_frames_are_decoded_at_half_size() -> None:
    config = AugmentConfig()
    assert spare_resolution(config, 1920, 1080) >= 2 > spare_resolution(config, 640, 512)
    image = draw_image(1920, 1080)
    plain = {"jitter_probability": 0.0, "grayscale_probability": 0.0, "solarize_probability": 0.0}
    config = AugmentConfig(**plain, blur="as_documented", blur_sigma_max_px=0.2)
    halved = augment_jpeg(jpeg(image), config, 0, 0, 0)
    full = crops_of(image, draw_params(config, 1920, 1080, 0, 0, 0), config)
    for a, b in zip(halved[0] + halved[1], full[0] + full[1], strict=True):
        assert a.shape == b.shape and difference(a, b).mean() < 2.5


def test_no_local_crops() -> None:
    config = AugmentConfig(**{**SMALL, "local_crops": 0})
    global_crops, local_crops = augment_jpeg(jpeg(draw_image()), config, 0, 0, 0)
    assert len(global_crops) == 2 and local_crops == []
    tensors = in_batches([draw_image()], [draw_params(config, 256, 215, 0, 0, 0)], config)
    assert tensors[1].shape == (0, 3, 42, 42)


def test_broken_image_is_named() -> None:
    whole = jpeg(draw_image())
    with pytest.raises(UserError, match="sample frame_9: not a readable JPEG"):
        augment_jpeg(b"not a jpeg", AugmentConfig(), 0, 0, "frame_9")
    with pytest.raises(UserError, match="sample frame_9"):
        augment_jpeg(whole[:300], AugmentConfig(), 0, 0, "frame_9")


def test_grayscale_and_cmyk_files_become_rgb() -> None:
    for mode in ("L", "CMYK"):
        buffer = io.BytesIO()
        Image.fromarray(draw_image()).convert(mode).save(buffer, "JPEG")
        crops = augment_jpeg(buffer.getvalue(), AugmentConfig(**SMALL), 0, 0, 0)
        assert crops[0][0].shape == (84, 84, 3)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("hue=0.7", "'hue' is 0.7, but must be at least 0 and at most 0.5"),
        ("grayscale_probability=1.2", "'grayscale_probability' is 1.2, but must be at least 0 and at most 1"),
        ("local_scale_min=0.5", r"augment\.local_scale_min=0.5 must not be above augment\.local_scale_max=0.32"),
        ("blur_sigma_min_px=3", r"augment\.blur_sigma_min_px=3.0 must not be above augment\.blur_sigma_max_px=2.0"),
        ("blur_kernel_px=8", "blur_kernel_px=8 must be odd"),
        ("local_crops=-1", "'local_crops' is -1, but must be at least 0"),
    ],
)
def test_contradictions_are_refused(word: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_config(AugmentConfig, None, [word])
