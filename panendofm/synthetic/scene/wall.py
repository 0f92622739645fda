"""The wall of the gut, unrolled: color and gloss over (angle around the lumen, logarithm of the distance from it).

Seen down a tube, the image's polar coordinates around the lumen are the wall's coordinates. With the logarithm of the
radius the map is conformal: a round spot on the unrolled wall is a round spot in the image. So the wall is painted
once per scene, and a frame is one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from panendofm.synthetic.scene.randomness import Floats, mix, ring_noise, smooth_noise, smoothstep, tint

WIDTH = 480  # texels around the lumen
LOG_NEAR, LOG_FAR = 1.3, -3.2  # log radius at the last and the first row
HEIGHT = round(WIDTH * (LOG_NEAR - LOG_FAR) / (2 * np.pi))
SHAPE = (HEIGHT, WIDTH)

ANGLE = np.broadcast_to(np.linspace(0, 2 * np.pi, WIDTH, endpoint=False, dtype=np.float32), SHAPE)
LOG_RADIUS = np.broadcast_to(np.linspace(LOG_FAR, LOG_NEAR, HEIGHT, dtype=np.float32)[:, None], SHAPE)

COLON_COLORS = ((0.80, 0.44, 0.31), (0.80, 0.47, 0.29), (0.76, 0.42, 0.33), (0.74, 0.40, 0.27))


@dataclass(frozen=True)
class Wall:
    """Painted once per scene; one column is repeated at the right so that interpolation runs across the seam."""

    color: Floats  # [HEIGHT, WIDTH + 1, 3], RGB, shading of folds included
    gloss: Floats  # [HEIGHT, WIDTH + 1], how much light a wet spot throws back


def paint_wall(kind: str, rng: np.random.Generator) -> Wall:
    """The wall for one kind of scene."""
    color, height = _PAINTERS[kind](rng)
    grain = smooth_noise(rng, SHAPE, (40, 64), 3, 0.8)
    height = height + 0.0035 * grain
    shading, facing = _relief(height)
    color = tint(color, np.asarray(shading * (1 + 0.02 * grain), np.float32))
    gloss = _gloss(rng, facing)
    seam = [np.concatenate([layer, layer[:, :1]], axis=1) for layer in (color, gloss)]
    return Wall(np.ascontiguousarray(seam[0], np.float32), np.ascontiguousarray(seam[1], np.float32))


def _relief(height: Floats) -> tuple[Floats, Floats]:
    """Light comes from the scope: slopes that face it are bright, the far side of a fold lies in shadow."""
    slope = np.gradient(height, axis=0) * WIDTH / (2 * np.pi)
    across = np.gradient(height, axis=1) * WIDTH / (2 * np.pi)
    facing = np.asarray(-slope, np.float32)
    shading = 1 + 0.36 * np.tanh(0.8 * facing) - 0.12 * np.tanh(np.abs(across))
    return np.asarray(shading, np.float32), facing


def _gloss(rng: np.random.Generator, facing: Floats) -> Floats:
    fine = smooth_noise(rng, SHAPE, (60, 84), 2, 0.8)
    patches = smooth_noise(rng, SHAPE, (6, 9), 2)
    return smoothstep(3.5, 4.2, fine + 0.9 * patches + 0.9 * np.clip(facing, -1, 1.6))


def _vessels(rng: np.random.Generator) -> Floats:
    """Branching lines: where a warped noise crosses zero, broken by another one."""
    lines = np.zeros(SHAPE, np.float32)
    for cells, width in (((5, 7), 0.05), ((10, 14), 0.09), ((20, 28), 0.13)):
        field = smooth_noise(rng, SHAPE, cells, 3, 0.45)
        lines = np.maximum(lines, np.exp(-((field / width) ** 2)))
    return np.asarray(lines * smoothstep(-0.6, 0.6, smooth_noise(rng, SHAPE, (4, 6), 2)), np.float32)


def _haustra(rng: np.random.Generator, strength: float) -> Floats:
    """The folds of the colon: broken, three-cornered rings at irregular distances."""
    wander = smooth_noise(rng, SHAPE, (3, 4), 2)
    phase = LOG_RADIUS * rng.uniform(0.9, 1.5) + 0.14 * np.cos(3 * ANGLE + rng.uniform(0, 6.3)) + 0.30 * wander
    ring = np.exp(-((((phase + rng.uniform()) % 1.0 - 0.5) / 0.15) ** 2))
    broken = smoothstep(-1.0, 0.9, smooth_noise(rng, SHAPE, (4, 3), 2))
    return np.asarray(strength * 0.28 * ring * broken, np.float32)


def _dyed(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A colon wall over which dye has run."""
    color, height = _colon(rng)
    pools = smoothstep(0.3, 1.6, smooth_noise(rng, SHAPE, (3, 5), 4, 0.55) + np.float32(rng.uniform(0.5, 1.2)))
    blue = np.asarray(cv2.multiply(color, (0.35, 0.85, 1.35, 1.0)), np.float32)
    return mix(color, blue, 0.85 * pools), height


def _base(rng: np.random.Generator, color: tuple[float, float, float], spread: float = 0.03) -> Floats:
    tone = np.asarray(color, np.float32) * np.exp(rng.normal(0, spread, 3)).astype(np.float32)
    mottle = smooth_noise(rng, SHAPE, (6, 9), 4, 0.6)
    channels = [t * (1 + np.float32(m) * mottle) for t, m in zip(tone, (0.035, 0.05, 0.045), strict=True)]
    return np.asarray(cv2.merge(channels), np.float32)


def _stool(rng: np.random.Generator, color: Floats, amount: float) -> Floats:
    lumps = smooth_noise(rng, SHAPE, (5, 8), 4, 0.65)
    cover = smoothstep(2.2 - amount, 2.45 - amount, lumps)
    tone = (0.62, 0.48, 0.14) if rng.uniform() < 0.6 else (0.45, 0.36, 0.16)
    return mix(color, tone, 0.85 * cover)


def _colon(rng: np.random.Generator, folds: float = 1.0, stool: float = 0.3) -> tuple[Floats, Floats]:
    color = _base(rng, COLON_COLORS[rng.integers(len(COLON_COLORS))])
    color = mix(color, (0.58, 0.16, 0.14), rng.uniform(0.35, 0.7) * _vessels(rng))
    if rng.uniform() < 0.6:
        color = _stool(rng, color, rng.uniform(0, stool))
    return color, _haustra(rng, folds * rng.uniform(0.6, 1.3))


def _cecum(rng: np.random.Generator) -> tuple[Floats, Floats]:
    color, height = _colon(rng, folds=0.8, stool=0.9)
    height = height * smoothstep(-0.9, -0.1, LOG_RADIUS)  # around the appendix the wall is smooth
    # The three bands of muscle meet at the blind end.
    bands = np.exp(-((np.sin(1.5 * (ANGLE - rng.uniform(0, 6.3))) / 0.16) ** 2)) * smoothstep(0.3, -0.6, LOG_RADIUS)
    return color, np.asarray(height + 0.10 * bands, np.float32)


def _colitis(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Red, grainy, without vessels; spots of blood and patches of yellowish exudate."""
    color = _base(rng, ((0.78, 0.31, 0.25), (0.80, 0.34, 0.28), (0.76, 0.32, 0.24))[rng.integers(3)])
    granules = smooth_noise(rng, SHAPE, (26, 40), 2, 0.8)
    patches = smooth_noise(rng, SHAPE, (4, 6), 3)
    red = smoothstep(0.7, 1.7, smooth_noise(rng, SHAPE, (16, 25), 2) + 0.4 * patches)
    color = mix(color, (0.55, 0.08, 0.08), 0.7 * red)
    exudate = smoothstep(1.3, 1.8, smooth_noise(rng, SHAPE, (9, 14), 3) - 0.45 * patches)
    color = mix(color, (0.85, 0.74, 0.50), rng.uniform(0.5, 0.85) * exudate)
    return color, np.asarray(_haustra(rng, 0.5) + 0.016 * granules + 0.03 * exudate, np.float32)


def _gullet(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Pale tube with long folds; the salmon-red stomach lining begins at a ragged line, the Z-line."""
    color = _base(rng, ((0.80, 0.58, 0.60), (0.82, 0.61, 0.60), (0.77, 0.55, 0.58))[rng.integers(3)])
    color = mix(color, (0.62, 0.34, 0.38), 0.18 * _vessels(rng))
    outline = ring_noise(rng, WIDTH, 6, 0.4)[None, :] + 0.8 * smooth_noise(rng, SHAPE, (7, 10), 3, 0.6)
    line = rng.uniform(-1.2, -0.2) + rng.uniform(0.15, 0.28) * outline
    inside = smoothstep(0.06, -0.06, np.asarray(LOG_RADIUS - line, np.float32))
    lining = (0.70, 0.36, 0.34) if rng.uniform() < 0.7 else (0.74, 0.42, 0.36)
    color = mix(color, lining, rng.uniform(0.65, 0.95) * inside)
    long_folds = ring_noise(rng, WIDTH, 9, 0.2)[None, :] * smoothstep(0.6, -1.2, LOG_RADIUS)
    rings = 0.03 * np.sin(LOG_RADIUS * rng.uniform(9, 13)) * rng.integers(0, 2)
    return color, np.asarray(0.07 * long_folds + rings, np.float32)


def _esophagitis(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The gullet with flame-shaped red breaks that run up from the Z-line, some with a white coat."""
    color, height = _gullet(rng)
    color = np.asarray(cv2.multiply(color, (0.98, 0.86, 0.84, 1.0)), np.float32)  # inflamed all around
    for _ in range(rng.integers(5, 11)):
        middle, length, width = rng.uniform(0, 2 * np.pi), rng.uniform(0.35, 1.0), rng.uniform(0.10, 0.26)
        top = rng.uniform(-0.8, 0.1)
        away = np.abs((ANGLE - middle + np.pi) % (2 * np.pi) - np.pi) / width
        along = (LOG_RADIUS - top) / length
        ragged = np.asarray(away + along**2 + 0.35 * smooth_noise(rng, SHAPE, (12, 18), 3, 0.7), np.float32)
        color = mix(color, (0.64, 0.16, 0.17), rng.uniform(0.55, 0.9) * smoothstep(1.1, 0.4, ragged))
        if rng.uniform() < 0.5:
            color = mix(color, (0.88, 0.80, 0.70), 0.75 * smoothstep(0.35, -0.1, ragged))
    return color, height


def _antrum(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Smooth stomach wall with soft rings around the pylorus and short folds that run into it."""
    color = _base(rng, ((0.80, 0.50, 0.42), (0.80, 0.48, 0.38), (0.76, 0.50, 0.44))[rng.integers(3)])
    color = mix(color, (0.66, 0.22, 0.2), 0.12 * _vessels(rng))
    rings = np.sin(LOG_RADIUS * rng.uniform(4, 6) + 0.4 * smooth_noise(rng, SHAPE, (3, 4), 1))
    spokes = ring_noise(rng, WIDTH, 7, 0.2)[None, :] * smoothstep(-0.6, -1.6, LOG_RADIUS)
    return color, np.asarray(0.05 * rng.uniform(0.4, 1.4) * rings + 0.05 * spokes, np.float32)


def _small_bowel(rng: np.random.Generator) -> tuple[Floats, Floats]:
    color = _base(rng, (0.72, 0.50, 0.26))
    villi = smooth_noise(rng, SHAPE, (34, 54), 2, 0.8)
    rings = np.sin(LOG_RADIUS * 13 + 0.9 * smooth_noise(rng, SHAPE, (4, 6), 2))
    return color, np.asarray(0.02 * villi + 0.06 * rings, np.float32)


def _abdomen(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Laparoscopy, which is no gut at all: liver, fat and gall bladder from outside."""
    organ = smooth_noise(rng, SHAPE, (3, 4), 3)
    color = mix(_base(rng, (0.55, 0.18, 0.14)), (0.86, 0.68, 0.30), smoothstep(0.1, 0.5, organ))
    color = mix(color, (0.55, 0.60, 0.42), smoothstep(-0.9, -1.2, organ))
    return color, np.asarray(0.12 * organ + 0.03 * smooth_noise(rng, SHAPE, (14, 20), 3), np.float32)


_PAINTERS: dict[str, Callable[[np.random.Generator], tuple[Floats, Floats]]] = {
    "dyed-lifted-polyps": _dyed,
    "dyed-resection-margins": _dyed,
    "esophagitis": _esophagitis,
    "normal-cecum": _cecum,
    "normal-pylorus": _antrum,
    "normal-z-line": _gullet,
    "polyps": _colon,
    "ulcerative-colitis": _colitis,
    "colon": _colon,
    "small-bowel": _small_bowel,
    "abdomen": _abdomen,
}


def look_up(layer: Floats, angle: Floats, log_radius: Floats) -> Floats:
    """The wall's values at image positions given by angle [h, w] in [0, 2π) and log radius [h, w]."""
    columns = angle * np.float32(WIDTH / (2 * np.pi))
    rows = (log_radius - np.float32(LOG_FAR)) * np.float32((HEIGHT - 1) / (LOG_NEAR - LOG_FAR))
    return np.asarray(cv2.remap(layer, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101), np.float32)
