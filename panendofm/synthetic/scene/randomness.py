"""Random numbers that depend on a name only, and the noise that images are made of.

Every image draws from a generator keyed by what it is, never from a shared one, so that the order in which images
are made, and the number of processes that make them, can't change a byte.
"""

from __future__ import annotations

import hashlib
import uuid

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def generator(*key: object) -> np.random.Generator:
    """A random generator that is a pure function of the key."""
    return np.random.default_rng(int.from_bytes(_digest(key)[:16], "big"))


def stable_uuid(*key: object) -> str:
    """A file name of the form that Kvasir uses, a pure function of the key."""
    return str(uuid.UUID(bytes=_digest(key)[:16], version=4))


def _digest(key: tuple[object, ...]) -> bytes:
    return hashlib.sha256("/".join(str(part) for part in key).encode()).digest()


def smooth_noise(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[float, float], octaves: int = 3, fade: float = 0.5
) -> Floats:
    """Noise of about unit variance, [H, W], periodic from left to right; `cells` is the grid of its coarsest octave."""
    height, width = shape
    rows, columns = (max(2, round(c)) for c in cells)
    total: Floats = rng.standard_normal((rows, columns)).astype(np.float32)
    power = 1.0
    for octave in range(1, octaves):
        if 2 * rows > height or 2 * columns > width:
            break
        rows, columns = 2 * rows, 2 * columns
        total = _enlarge(total, (rows, columns))
        total += np.float32(fade**octave) * rng.standard_normal((rows, columns)).astype(np.float32)
        power += fade ** (2 * octave)
    return np.asarray(_enlarge(total, shape) * np.float32(1.35 / np.sqrt(power)), np.float32)


def _enlarge(grid: Floats, shape: tuple[int, int]) -> Floats:
    """Cubic interpolation that runs across the left and right edges, so that no seam shows."""
    margin = 3
    columns = np.arange(-margin, grid.shape[1] + margin) % grid.shape[1]
    pad = round(margin * shape[1] / grid.shape[1])
    big = cv2.resize(grid[:, columns], (shape[1] + 2 * pad, shape[0]), interpolation=cv2.INTER_CUBIC)
    return np.ascontiguousarray(big[:, pad : pad + shape[1]])


def ring_noise(rng: np.random.Generator, samples: int, harmonics: int, fade: float = 0.7) -> Floats:
    """A periodic curve of about unit variance, [samples]: the raggedness of an outline."""
    angle = np.linspace(0, 2 * np.pi, samples, endpoint=False)
    total, power = np.zeros(samples), 0.0
    for k in range(1, harmonics + 1):
        amplitude = k**-fade
        total += amplitude * np.cos(k * angle + rng.uniform(0, 2 * np.pi))
        power += amplitude**2 / 2
    return np.asarray(total / np.sqrt(power), np.float32)


def smoothstep(low: float, high: float, values: Floats) -> Floats:
    """0 below `low`, 1 above `high`, smooth in between (or the reverse when `low` is the larger)."""
    t = np.clip((values - np.float32(low)) / np.float32(high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


def tint(image: Floats, weight: Floats) -> Floats:
    """Colors [H, W, 3] times a brightness [H, W]; OpenCV does it several times faster than broadcasting."""
    return np.asarray(cv2.multiply(image, cv2.merge([weight, weight, weight])), np.float32)


def mix(a: Floats, b: Floats | tuple[float, float, float], weight: Floats) -> Floats:
    """Colors `a` [H, W, 3] towards `b` by `weight` [H, W]."""
    difference = cv2.subtract(np.array(b, np.float32), a) if isinstance(b, np.ndarray) else _to_constant(a, b)
    return np.asarray(cv2.add(a, tint(difference, weight)), np.float32)


def _to_constant(a: Floats, color: tuple[float, float, float]) -> Floats:
    return np.asarray(cv2.subtract((*color, 0.0), a), np.float32)
