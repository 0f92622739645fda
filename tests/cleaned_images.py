"""Images as recorders store them: a round view on a dark ground, with a position box and a line of text in it."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def recorded(scene: int, box: bool = True, text: str = "", shift: int = 0) -> NDArray[np.uint8]:
    """A wall [300, 400, 3] of one examination. `shift` moves the scope by so many pixels: a near-duplicate."""
    random = np.random.default_rng(scene)
    wall = sum(
        cv2.resize(random.uniform(-1, 1, (n, n)).astype(np.float32), (440, 440), interpolation=cv2.INTER_CUBIC) * a
        for n, a in ((5, 30), (12, 35), (40, 15))
    )
    for _ in range(60):  # vessels
        points = np.cumsum(random.normal(0, 9, (6, 2)), axis=0) + random.uniform(0, 440, 2)
        cv2.polylines(wall, [points.round().astype(np.int32)], False, -60.0, 1)
    lit = wall[shift : shift + 300, shift : shift + 400, None] * (1.0, 0.8, 0.7) + (160, 95, 85)
    view = np.clip(lit, 30, 235).astype(np.uint8)
    inside = cv2.circle(np.zeros((300, 400), np.uint8), (250, 140), 105, 255, -1)
    image = cv2.bitwise_and(np.ascontiguousarray(view), view, mask=inside)
    if box:
        cv2.rectangle(image, (0, 200), (130, 299), (20, 160, 150), -1)
    if text:
        cv2.putText(image, text, (175, 150), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    return image
