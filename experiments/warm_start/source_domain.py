"""The first domain: drawn patterns in ten classes. The class is the kind of pattern, all else varies freely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from panendofm.runtime.files import atomic_directory

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

SIDE_PX = 96
CLASSES = ("stripes", "checks", "dots", "rings", "cells", "blobs", "waves", "spokes", "bars", "speckles")


def draw_image(kind: str, rng: np.random.Generator) -> Bytes:
    """An image [SIDE_PX, SIDE_PX, 3] of a kind: turned, moved, scaled, colored, lit and blurred at random."""
    angle, scale = rng.uniform(0, 2 * np.pi), rng.uniform(0.5, 1.2)
    shift = rng.uniform(-0.5, 0.5, 2)
    y, x = np.mgrid[-1 : 1 : SIDE_PX * 1j, -1 : 1 : SIDE_PX * 1j].astype(np.float32)
    u = _floats(scale * (np.cos(angle) * x + np.sin(angle) * y) + shift[0])
    v = _floats(scale * (-np.sin(angle) * x + np.cos(angle) * y) + shift[1])
    pattern = cv2.GaussianBlur(_pattern(kind, u, v, rng), (0, 0), rng.uniform(0.4, 1.5))
    first, second, third = _color(rng, CLASSES.index(kind) / len(CLASSES)), _color(rng), _color(rng)
    image = first + pattern[..., None] * (second - first)  # [S, S, 3]
    center, radius = rng.uniform(-0.7, 0.7, 2), rng.uniform(0.1, 0.5)
    inside = np.clip(8 * (radius - np.hypot(x - center[0], y - center[1])), 0, 1)[..., None]
    image = image * (1 - inside) + third * inside  # something lies on it
    slope = rng.uniform(-0.35, 0.35, 2)
    image = image * (1 + slope[0] * x + slope[1] * y)[..., None]
    image += rng.normal(0, rng.uniform(0.01, 0.06), image.shape)
    return np.asarray(np.clip(image * 255, 0, 255), np.uint8)


def _color(rng: np.random.Generator, hue: float | None = None) -> Floats:
    """Any color, or one near a hue (0…1): each kind of pattern is mostly of one hue."""
    turned = rng.uniform(0, 1) if hue is None else rng.normal(hue, 0.07) % 1
    hsv = np.array([[[360 * turned, rng.uniform(0.2, 0.9), rng.uniform(0.3, 0.95)]]], np.float32)
    return _floats(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0, 0])


def _floats(values: NDArray[Any]) -> Floats:
    return np.asarray(values, np.float32)


def _pattern(kind: str, u: Floats, v: Floats, rng: np.random.Generator) -> Floats:
    """Values in 0…1."""
    if kind == "stripes":
        return _wave(5 * u)
    if kind == "checks":
        return _floats((_wave(4 * u) > 0.5) ^ (_wave(4 * v) > 0.5))
    if kind == "dots":
        return _floats(np.exp(-8 * (_saw(3 * u) ** 2 + _saw(3 * v) ** 2)))
    if kind == "rings":
        return _wave(5 * _floats(np.hypot(u, v)))
    if kind == "spokes":
        return _wave(_floats(np.arctan2(v, u) * 9 / (2 * np.pi)))
    if kind == "waves":
        return _wave(_floats(4 * (u + 0.25 * np.sin(6 * v))))
    if kind == "bars":
        return _floats((_wave(4 * u) > 0.6) & (_wave(_floats(2 * v + np.floor(4 * u) * 0.5)) > 0.25))
    if kind == "speckles":
        return _floats(4 * cv2.GaussianBlur(_floats(rng.random(u.shape) < 0.08), (0, 0), 1.0))
    centers = rng.uniform(-1.8, 1.8, (60, 2)).astype(np.float32)
    away = np.partition(np.hypot(u[..., None] - centers[:, 0], v[..., None] - centers[:, 1]), 1, axis=-1)
    if kind == "cells":
        return _floats(np.clip(8 * (away[..., 1] - away[..., 0]), 0, 1))
    return _floats(away[..., 0] < 0.22)  # blobs


def _wave(x: Floats) -> Floats:
    return _floats(0.5 + 0.5 * np.sin(2 * np.pi * x))


def _saw(x: Floats) -> Floats:
    return _floats(2 * (x - np.floor(x)) - 1)


def write_labeled(folder: Path, per_class: int, seed: int) -> Path:
    """A folder of images for each class, as eval_knn reads it."""
    if not folder.exists():
        with atomic_directory(folder) as made:
            for number, kind in enumerate(CLASSES):
                (made / kind).mkdir()
                for i in range(per_class):
                    image = draw_image(kind, np.random.default_rng((seed, number, i)))
                    (made / kind / f"{i:04d}.jpg").write_bytes(simplejpeg.encode_jpeg(image, 92))
    return folder
