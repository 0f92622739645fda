"""What stands out of the wall or lies on it: polyps, dye cushions, resection wounds, the appendix, instruments.

A lesion is drawn in image space, in a window around its center. Inside the window `rho` is 1 on its outline.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.synthetic.scene.randomness import Floats, mix, ring_noise, smooth_noise, smoothstep

OUTLINE_SAMPLES = 256
TILE_PX = 160
Color = tuple[float, float, float]

# How far beyond its outline each lesion paints, in multiples of its size.
REACH = {"polyp": 1.5, "cushion": 1.7, "wound": 1.9, "appendix": 1.6}


@dataclass(frozen=True)
class Lesion:
    """One lesion, fixed to a point of the wall."""

    shape: str  # a key of REACH
    angle: float
    log_radius: float
    size: float  # half its width, where half the image's height is 1
    squash: float
    turn: float
    color: Color
    second_color: Color
    outline: Floats  # [OUTLINE_SAMPLES]
    tile: Floats  # [TILE_PX, TILE_PX]
    fine_tile: Floats  # [TILE_PX, TILE_PX]


def make_lesion(
    shape: str, rng: np.random.Generator, angle: float, log_radius: float, size: float, color: Color, second: Color
) -> Lesion:
    tile_shape = (TILE_PX, TILE_PX)
    roughness = {"polyp": 0.07, "cushion": 0.09, "wound": 0.2, "appendix": 0.05}[shape]
    return Lesion(
        shape=shape,
        angle=angle,
        log_radius=log_radius,
        size=size,
        squash=float(rng.uniform(0.65, 1.0)),
        turn=float(rng.uniform(0, 2 * np.pi)),
        color=color,
        second_color=second,
        outline=roughness * ring_noise(rng, OUTLINE_SAMPLES, 9 if shape == "wound" else 4, 0.6),
        tile=smooth_noise(rng, tile_shape, (4, 4), 4, 0.6),
        fine_tile=smooth_noise(rng, tile_shape, (18, 18), 2, 0.7),
    )


@dataclass(frozen=True)
class Window:
    """The part of the image that a lesion touches, in the lesion's own coordinates."""

    rows: slice
    columns: slice
    a: Floats  # [h, w], along the lesion's long axis
    b: Floats
    rho: Floats
    tile: Floats
    fine: Floats


def _window(lesion: Lesion, center: tuple[float, float], size: float, shape: tuple[int, int]) -> Window | None:
    height, width = shape
    unit = height / 2  # px per unit of image space
    cx, cy = width / 2 + center[0] * unit, height / 2 + center[1] * unit
    reach = REACH[lesion.shape] * size * unit
    top, bottom = max(0, int(cy - reach)), min(height, int(cy + reach) + 1)
    left, right = max(0, int(cx - reach)), min(width, int(cx + reach) + 1)
    if bottom - top < 3 or right - left < 3:
        return None
    x = (np.arange(left, right, dtype=np.float32) - np.float32(cx))[None, :] / np.float32(size * unit)
    y = (np.arange(top, bottom, dtype=np.float32) - np.float32(cy))[:, None] / np.float32(size * unit)
    cosine, sine = np.float32(np.cos(lesion.turn)), np.float32(np.sin(lesion.turn))
    a: Floats = np.asarray(cosine * x + sine * y, np.float32)
    b: Floats = np.asarray((cosine * y - sine * x) / np.float32(lesion.squash), np.float32)
    rho, angle = cv2.cartToPolar(a, b)
    outline = lesion.outline[(angle * (OUTLINE_SAMPLES / (2 * np.pi))).astype(np.int32) % OUTLINE_SAMPLES]
    rho = np.asarray(rho * (1 + outline), np.float32)
    columns, rows = (a + 2) * np.float32(TILE_PX / 4), (b + 2) * np.float32(TILE_PX / 4)
    tile, fine = (cv2.remap(t, columns, rows, cv2.INTER_LINEAR) for t in (lesion.tile, lesion.fine_tile))
    return Window(slice(top, bottom), slice(left, right), a, b, rho, tile, fine)


def lesion_mask(lesion: Lesion, center: tuple[float, float], size: float, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Which pixels of an image of `shape` (height, width) lie inside the lesion's outline."""
    mask = np.zeros(shape, bool)
    window = _window(lesion, center, size, shape)
    if window is not None:
        mask[window.rows, window.columns] = window.rho < 1
    return mask


def draw_lesion(image: Floats, gloss: Floats, lesion: Lesion, center: tuple[float, float], size: float) -> None:
    """Paint the lesion into the image [H, W, 3] and its wet spots into the gloss [H, W], in place."""
    window = _window(lesion, center, size, (image.shape[0], image.shape[1]))
    if window is None:
        return
    part = image[window.rows, window.columns]
    wet = gloss[window.rows, window.columns]
    painter = {"polyp": _polyp, "cushion": _cushion, "wound": _wound, "appendix": _appendix}[lesion.shape]
    new_part, new_wet = painter(lesion, window, part, wet, center)
    image[window.rows, window.columns] = new_part
    gloss[window.rows, window.columns] = new_wet


def _dome(window: Window, flatness: float, center: tuple[float, float], lesion: Lesion) -> Floats:
    """Lambert shading of a dome lit from the scope, which sits in front of the image's middle."""
    high = np.sqrt(np.clip(1 - window.rho**2, 0.02, 1)) * np.float32(flatness)
    cosine, sine = np.cos(lesion.turn), np.sin(lesion.turn)
    towards = np.asarray((-center[0] * 0.7, -center[1] * 0.7 - 0.15), np.float32)
    light = (cosine * towards[0] + sine * towards[1], cosine * towards[1] - sine * towards[0], 1.0)
    bump = 0.05 * window.tile
    norm = np.sqrt(window.a**2 + window.b**2 + high**2) * np.float32(np.linalg.norm(light))
    return np.asarray(np.clip((window.a * light[0] + window.b * light[1] + high) / norm + bump, 0, 1.3), np.float32)


def _polyp(
    lesion: Lesion, window: Window, part: Floats, wet: Floats, center: tuple[float, float]
) -> tuple[Floats, Floats]:
    inside = smoothstep(1.03, 0.94, window.rho)
    shadow = smoothstep(1.45, 1.0, window.rho) * (1 - inside)
    light = _dome(window, 0.9, center, lesion)
    local = np.asarray(np.clip(part.mean(axis=2), 0.25, 0.75), np.float32)  # as bright as the wall around it
    own = 0.6 * np.asarray(lesion.color, np.float32) + 0.4 * np.clip(part.mean(axis=(0, 1)) * 1.3, 0.2, 0.85)
    tone = own * (1 + 0.045 * window.tile[..., None] + 0.045 * window.fine[..., None])
    body = tone * ((0.35 + 0.9 * light) * (0.7 + 0.6 * float(local.mean())))[..., None]
    part = part * (1 - 0.45 * shadow)[..., None]
    spots = smoothstep(0.97, 1.08, light + 0.06 * window.fine) * smoothstep(1.2, 2.2, window.fine + window.tile)
    return mix(part, np.asarray(body, np.float32), inside), np.asarray(wet * (1 - inside) + spots * inside, np.float32)


def _cushion(
    lesion: Lesion, window: Window, part: Floats, wet: Floats, center: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Mucosa lifted by injected dye: a broad dome that shines blue through, deepest at its foot."""
    inside = smoothstep(1.08, 0.85, window.rho)
    light = _dome(window, 1.6, center, lesion)
    depth = smoothstep(0.15, 1.0, window.rho + 0.25 * window.tile)
    tone = mix(np.broadcast_to(np.asarray(lesion.color, np.float32), part.shape), lesion.second_color, depth)
    body = tone * ((0.45 + 0.75 * light) * (1 + 0.05 * window.fine))[..., None]
    stain = smoothstep(1.65, 1.0, window.rho + 0.2 * window.tile) * (1 - inside)
    part = mix(part, np.asarray(part * (0.35, 0.75, 1.05), np.float32), 0.8 * stain)
    spots = smoothstep(2.2, 2.9, window.fine + 0.8 * window.tile) * inside
    return mix(part, np.asarray(body, np.float32), 0.9 * inside), np.asarray(
        np.maximum(wet * (1 - inside), spots), np.float32
    )


def _wound(
    lesion: Lesion, window: Window, part: Floats, wet: Floats, center: tuple[float, float]
) -> tuple[Floats, Floats]:
    """What a resection leaves: a ragged crater, blue ground with white fibres, a pale burnt rim, blue stain around."""
    stain = smoothstep(1.85, 1.1, window.rho + 0.25 * window.tile)
    part = mix(part, np.asarray(part * (0.35, 0.78, 1.0), np.float32), 0.85 * stain)
    inside = smoothstep(1.03, 0.95, window.rho)
    ground = mix(
        np.broadcast_to(np.asarray(lesion.second_color, np.float32), part.shape),
        lesion.color,
        smoothstep(-0.6, 0.9, window.tile),
    )
    fibres = smoothstep(0.9, 1.9, window.fine + 0.5 * window.tile)
    ground = mix(ground, (0.72, 0.82, 0.84), 0.7 * fibres)
    blood = smoothstep(1.3, 1.7, window.tile - 0.3 * window.fine)
    ground = mix(ground, (0.35, 0.10, 0.10), 0.7 * blood)
    rim = np.exp(-(((window.rho - 1.02) / 0.09) ** 2)) * (0.7 + 0.3 * np.clip(window.fine, -1, 1))
    part = mix(
        part, np.asarray(ground * (0.7 + 0.35 * smoothstep(0.2, 1.0, window.rho))[..., None], np.float32), inside
    )
    part = mix(part, (0.86, 0.84, 0.76), np.asarray(0.85 * rim, np.float32))
    spots = smoothstep(2.3, 3.0, window.fine + 0.6 * window.tile) * inside
    return part, np.asarray(np.maximum(wet * (1 - inside), spots), np.float32)


def _appendix(
    lesion: Lesion, window: Window, part: Floats, wet: Floats, center: tuple[float, float]
) -> tuple[Floats, Floats]:
    """The orifice at the caecum's end: a dark slit inside crescent folds that wind around it."""
    spiral = np.sin(7.5 * window.rho - 1.0 * np.arctan2(window.b, window.a) + 0.5 * window.tile)
    fold = smoothstep(1.55, 0.9, window.rho) * smoothstep(0.12, 0.35, window.rho)
    part = part * (1 + 0.30 * fold * np.tanh(1.8 * spiral))[..., None]
    slit = np.sqrt((window.a / 0.24) ** 2 + ((window.b - 0.5 * window.a**2) / 0.10) ** 2)
    hole = smoothstep(1.25, 0.7, np.asarray(slit, np.float32))
    return mix(np.asarray(part, np.float32), (0.16, 0.05, 0.03), 0.9 * hole), np.asarray(wet * (1 - hole), np.float32)


@dataclass(frozen=True)
class Instrument:
    """A catheter or a snare sheath that comes in from the edge."""

    entry: tuple[float, float]
    tip: tuple[float, float]
    width: float
    color: Color


def _shaft(
    instrument: Instrument, sway: tuple[float, float], shape: tuple[int, int]
) -> tuple[Floats, Floats, float, Floats]:
    """Distance along the shaft and across it (1 on its edge), its length, and how much it covers [H, W]."""
    height, width = shape
    x = ((np.arange(width, dtype=np.float32) + 0.5) * 2 - width)[None, :] / np.float32(height)
    y = ((np.arange(height, dtype=np.float32) + 0.5) * 2 - height)[:, None] / np.float32(height)
    tip = (instrument.tip[0] + sway[0], instrument.tip[1] + sway[1])
    dx, dy = tip[0] - instrument.entry[0], tip[1] - instrument.entry[1]
    length = float(np.hypot(dx, dy))
    along: Floats = np.asarray((x - instrument.entry[0]) * dx + (y - instrument.entry[1]) * dy, np.float32)
    along = along / np.float32(length)
    across: Floats = np.asarray((x - instrument.entry[0]) * dy - (y - instrument.entry[1]) * dx, np.float32)
    across = across / np.float32(length * instrument.width)
    cover = smoothstep(1.1, 0.9, np.abs(across)) * smoothstep(length + 0.03, length, along)
    return along, across, length, cover


def instrument_mask(instrument: Instrument, sway: tuple[float, float], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Which pixels of an image of `shape` (height, width) the instrument hides."""
    return np.asarray(_shaft(instrument, sway, shape)[3] > 0.5)


def draw_instrument(image: Floats, instrument: Instrument, sway: tuple[float, float]) -> None:
    """Paint a round shaft with a bright line along it, in place."""
    along, across, length, cover = _shaft(instrument, sway, (image.shape[0], image.shape[1]))
    shade = 0.45 + 0.55 * np.sqrt(np.clip(1 - across**2, 0, 1)) + 0.5 * np.exp(-(((across + 0.35) / 0.16) ** 2))
    body = np.asarray(instrument.color, np.float32) * shade[..., None]
    tip_band = smoothstep(length - 0.14, length - 0.12, along)
    body = body * (1 - 0.5 * tip_band)[..., None]
    image[:] = mix(image, np.asarray(body, np.float32), cover)
