"""Small images of four classes, hard enough that nothing tells them apart without fault."""

from __future__ import annotations

import numpy as np
from PIL import Image

CLASSES = ("dyed", "normal", "polyp", "ulcer")
PER_CLASS = 14


def paint(label: int, number: int) -> Image.Image:
    """A image of a class: a stripe pattern of the class's direction and color under strong noise."""
    random = np.random.default_rng([label, number])
    y, x = np.mgrid[0:96, 0:112]
    angle = label * np.pi / 4 + random.normal(0, 0.15)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) / 6 + random.uniform(0, 6.3))
    color = np.array([[160, 90, 80], [150, 100, 80], [170, 90, 90], [150, 90, 100]][label])
    coarse = random.normal(0, 28, (6, 7, 3)).repeat(16, axis=0).repeat(16, axis=1)
    pixels = color + 25 * wave[..., None] + coarse + random.normal(0, 10, (96, 112, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
