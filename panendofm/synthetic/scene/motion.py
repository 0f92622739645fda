"""How the scope moves and what goes wrong with its images."""

from __future__ import annotations

import cv2
import numpy as np

from panendofm.synthetic.scene.place import Camera, Scene, render
from panendofm.synthetic.scene.randomness import Floats, generator

RENDER_HEIGHT_PX = 200  # taller images are enlarged: scopes are soft, and it keeps the corpus quick to make


def camera_at(scene: Scene, seconds: float) -> Camera:
    """The scope's place at a moment: slow, smooth, never quite still."""
    rng = generator("path", scene.seed)
    period = rng.uniform(2.5, 7.0, 6)
    phase = rng.uniform(0, 2 * np.pi, 6)
    swing = np.sin(2 * np.pi * seconds / period + phase)
    return Camera(
        x=scene.center[0] + 0.13 * float(swing[0]),
        y=scene.center[1] + 0.11 * float(swing[1]),
        depth=0.22 * float(swing[2]),
        roll=0.25 * float(swing[3]),
        sway=(0.06 * float(swing[4]), 0.05 * float(swing[5])),
    )


def look(scene: Scene, seconds: float, view_width_px: int, view_height_px: int, blur: bool = True) -> Floats:
    """What the scope sees at a moment, for a field of view of this size, with the blur of its own motion."""
    height = min(RENDER_HEIGHT_PX, view_height_px)
    width = max(2, round(height * view_width_px / view_height_px))
    camera = camera_at(scene, seconds)
    image = render(scene, camera, height, width)
    if blur:
        before = camera_at(scene, seconds - 0.04)
        image = _smear(image, (camera.x - before.x) * height / 2, (camera.y - before.y) * height / 2)
    return image


def _smear(image: Floats, dx: float, dy: float) -> Floats:
    """Motion blur along (dx, dy) pixels."""
    if dx * dx + dy * dy < 2.0:
        return image
    size = 2 * int(np.ceil(max(abs(dx), abs(dy)) / 2)) + 1
    kernel = np.zeros((size, size), np.float32)
    for t in np.linspace(-0.5, 0.5, 4 * size):
        kernel[round(size // 2 + t * dy), round(size // 2 + t * dx)] += 1
    return np.asarray(cv2.filter2D(image, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT), np.float32)


def spoil(image: Floats, fault: str) -> Floats:
    """An image with a fault; "frozen" is not one of the image but of the video."""
    if fault == "dark":
        return np.asarray(image * 0.10, np.float32)
    if fault == "washed_out":
        return np.asarray(0.93 + 0.07 * image, np.float32)
    if fault == "blurred":
        return np.asarray(cv2.GaussianBlur(image, (0, 0), image.shape[0] / 18), np.float32)
    return image


def narrow_band(image: Floats) -> Floats:
    """Narrow-band imaging: the mucosa turns brown-green, vessels and blood dark."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    return np.asarray(
        np.stack([0.35 * red + 0.45 * green, 0.25 * red + 0.85 * green, 0.2 * red + 0.6 * green + 0.3 * blue], axis=-1),
        np.float32,
    )
