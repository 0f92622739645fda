"""A place in the gut and what the scope sees of it: `make_scene` draws its features, `render` takes an image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from panendofm.synthetic.scene.lesions import Color, Instrument, Lesion, draw_instrument, draw_lesion, make_lesion
from panendofm.synthetic.scene.randomness import Floats, generator, smoothstep, tint
from panendofm.synthetic.scene.wall import Wall, look_up, paint_wall

KVASIR_CLASSES = (
    "dyed-lifted-polyps",
    "dyed-resection-margins",
    "esophagitis",
    "normal-cecum",
    "normal-pylorus",
    "normal-z-line",
    "polyps",
    "ulcerative-colitis",
)


@dataclass(frozen=True)
class Camera:
    """Where the scope is and what it has done to the light, at one moment."""

    x: float = 0.0  # where the lumen's middle lies in the image; half the image's height is 1
    y: float = 0.0
    depth: float = 0.0  # how far the scope went in: the wall grows by exp(depth)
    roll: float = 0.0
    sway: tuple[float, float] = (0.0, 0.0)  # of an instrument


@dataclass(frozen=True)
class Scene:
    """Everything about a place that stays the same while the scope moves."""

    kind: str
    wall: Wall
    lesions: tuple[Lesion, ...]
    instrument: Instrument | None
    lumen: float  # radius of the dark middle; 0 for a blind end
    lumen_edge: float  # how suddenly it gets dark
    squeeze: tuple[float, float, float, float]  # strength and phase of the lumen's two- and three-cornered shape
    center: tuple[float, float]  # where the lumen lies on average
    gains: Color  # white balance
    gamma: float
    exposure: float
    falloff: float  # how fast the light gets weaker away from the image's middle
    seed: int  # of the scope's path


def make_scene(kind: str, *key: object) -> Scene:
    """Draw a scene of one kind; a pure function of kind and key."""
    rng = generator("scene", kind, *key)
    lumen, edge = _lumen_of(kind, rng)
    center = _center_of(kind, rng)
    lesions = _lesions_of(kind, rng, center)
    return Scene(
        kind=kind,
        wall=paint_wall(kind, rng),
        lesions=lesions,
        instrument=_instrument_of(kind, rng),
        lumen=lumen,
        lumen_edge=edge,
        squeeze=(
            float(rng.uniform(0, 0.22)),
            float(rng.uniform(0, 6.3)),
            float(rng.uniform(0, 0.12)),
            float(rng.uniform(0, 6.3)),
        ),
        center=center,
        gains=_color_cast(rng),
        gamma=float(rng.uniform(0.9, 1.2)),
        exposure=float(np.exp(rng.normal(0.05, 0.15))),
        falloff=float(rng.uniform(0.25, 0.5)),
        seed=int(rng.integers(2**62)),
    )


def _color_cast(rng: np.random.Generator) -> Color:
    red, green, blue = np.exp(rng.normal(0, (0.02, 0.03, 0.05)))
    return (float(red), float(green), float(blue))


def _lumen_of(kind: str, rng: np.random.Generator) -> tuple[float, float]:
    if kind in ("normal-cecum", "abdomen"):
        return 0.0, 1.0
    if kind == "normal-pylorus":
        return float(rng.uniform(0.05, 0.13)), 4.0
    if kind in ("normal-z-line", "esophagitis"):
        return float(rng.uniform(0.06, 0.26)), float(rng.uniform(1.6, 3.0))
    return float(rng.uniform(0.10, 0.34)), float(rng.uniform(1.3, 2.2))


def _center_of(kind: str, rng: np.random.Generator) -> tuple[float, float]:
    """Colon views often look at the wall, with the lumen near or beyond the edge."""
    aside = kind in ("polyps", "dyed-lifted-polyps", "dyed-resection-margins", "colon", "small-bowel")
    reach = rng.uniform(0.5, 1.2) if aside else rng.uniform(0.0, 0.4)
    angle = rng.uniform(0, 2 * np.pi)
    return float(reach * np.cos(angle) * 1.1), float(reach * np.sin(angle))


def _lesions_of(kind: str, rng: np.random.Generator, center: tuple[float, float]) -> tuple[Lesion, ...]:
    if kind == "normal-cecum":
        size = float(rng.uniform(0.35, 0.6))
        return (make_lesion("appendix", rng, 0.0, -9.0, size, (0, 0, 0), (0, 0, 0)),)
    if kind not in ("polyps", "dyed-lifted-polyps", "dyed-resection-margins"):
        return ()
    # Somewhere inside the image, as seen from the lumen's middle.
    x, y = rng.uniform(-0.35, 0.35) - center[0], rng.uniform(-0.3, 0.3) - center[1]
    angle, log_radius = float(np.arctan2(y, x)), float(np.log(max(0.2, np.hypot(x, y))))
    skin: Color = ((0.80, 0.40, 0.33), (0.84, 0.56, 0.44), (0.80, 0.52, 0.26), (0.70, 0.30, 0.26))[rng.integers(4)]
    teal: Color = ((0.36, 0.62, 0.68), (0.42, 0.60, 0.60), (0.50, 0.60, 0.58))[rng.integers(3)]
    deep: Color = ((0.08, 0.26, 0.42), (0.05, 0.18, 0.34), (0.12, 0.36, 0.46))[rng.integers(3)]
    if kind == "polyps":
        return (make_lesion("polyp", rng, angle, log_radius, float(rng.uniform(0.28, 0.6)), skin, skin),)
    if kind == "dyed-resection-margins":
        return (make_lesion("wound", rng, angle, log_radius, float(rng.uniform(0.55, 0.8)), teal, deep),)
    size = float(rng.uniform(0.65, 1.0))
    cushion = make_lesion("cushion", rng, angle, log_radius, size, teal, deep)
    polyp = make_lesion("polyp", rng, angle, log_radius, size * float(rng.uniform(0.35, 0.6)), skin, skin)
    return (cushion, polyp)


def _instrument_of(kind: str, rng: np.random.Generator) -> Instrument | None:
    chance = {"dyed-lifted-polyps": 0.3, "dyed-resection-margins": 0.3, "polyps": 0.2, "abdomen": 1.0}
    if rng.uniform() > chance.get(kind, 0.03):
        return None
    side = rng.uniform(0.2, 1.4)
    colors: tuple[Color, ...] = ((0.80, 0.82, 0.80), (0.30, 0.55, 0.75), (0.85, 0.80, 0.55))
    return Instrument(
        entry=(float(1.6 * np.cos(side)), float(1.5 * np.sin(side))),
        tip=(float(rng.uniform(-0.2, 0.5)), float(rng.uniform(-0.1, 0.5))),
        width=float(rng.uniform(0.05, 0.10)),
        color=colors[rng.integers(3)],
    )


@lru_cache(maxsize=16)
def _grid(height: int, width: int) -> tuple[Floats, Floats]:
    x = ((np.arange(width, dtype=np.float32) + 0.5) * 2 - width) / np.float32(height)
    y = ((np.arange(height, dtype=np.float32) + 0.5) * 2 - height) / np.float32(height)
    return np.ascontiguousarray(np.broadcast_to(x, (height, width))), np.ascontiguousarray(
        np.broadcast_to(y[:, None], (height, width))
    )


def place_of(lesion: Lesion, camera: Camera) -> tuple[tuple[float, float], float]:
    """Center and size of a lesion in the image."""
    radius = float(np.exp(lesion.log_radius + camera.depth))
    angle = lesion.angle - camera.roll
    size = lesion.size * float(np.exp(camera.depth))
    return (camera.x + radius * float(np.cos(angle)), camera.y + radius * float(np.sin(angle))), size


def render(scene: Scene, camera: Camera, height: int, width: int) -> Floats:
    """The image, RGB in [0, 1], [height, width, 3]."""
    x, y = _grid(height, width)
    radius, angle = cv2.cartToPolar(x - np.float32(camera.x), y - np.float32(camera.y))
    two, two_phase, three, three_phase = scene.squeeze
    shape = two * np.cos(2 * angle + np.float32(two_phase)) + three * np.cos(3 * angle + np.float32(three_phase))
    bent = np.log(radius + np.float32(0.02)) + shape
    turned = (angle + np.float32(camera.roll % (2 * np.pi))) % np.float32(2 * np.pi)
    image = look_up(scene.wall.color, turned, bent - np.float32(camera.depth))
    # Highlights slide over the wall as the scope moves: they belong to the light, not to the mucosa.
    slide = np.float32(0.35 * camera.depth + 0.2 * camera.x)
    gloss = look_up(scene.wall.gloss, (turned + np.float32(7 + 0.2 * camera.y)) % np.float32(2 * np.pi), bent - slide)
    light = _light(scene, camera, x, y, np.asarray(np.exp(bent), np.float32))
    image = tint(image, light)
    gloss *= light
    for lesion in scene.lesions:
        draw_lesion(image, gloss, lesion, *place_of(lesion, camera))
    if scene.instrument is not None:
        draw_instrument(image, scene.instrument, camera.sway)
    return _develop(scene, image, gloss)


def _light(scene: Scene, camera: Camera, x: Floats, y: Floats, radius: Floats) -> Floats:
    """The lumen swallows the light; the wall gets less of it away from the image's middle."""
    light = 1 / (1 + np.float32(scene.falloff) * (x * x + y * y))
    if scene.lumen > 0:
        scale = np.float32(scene.lumen * np.exp(0.8 * camera.depth))
        light = light * (1 - np.exp(-((radius / scale) ** np.float32(scene.lumen_edge))))
    near = 1 + 0.35 * smoothstep(0.6, 1.6, radius)
    return np.asarray(light * near, np.float32)


def _develop(scene: Scene, image: Floats, gloss: Floats) -> Floats:
    """Exposure, white balance, glare and the sensor's shoulder."""
    image = cv2.multiply(image, (*(1.12 * scene.exposure * gain for gain in scene.gains), 1.0))
    halo = 0.95 * np.clip(1.5 * cv2.GaussianBlur(gloss, (0, 0), 1.2), 0, 1)
    image = cv2.add(image, cv2.merge([halo, halo, halo]))
    image = cv2.pow(image, scene.gamma)
    over = np.maximum(image - np.float32(0.8), 0)
    return np.asarray(image - np.float32(0.5) * over, np.float32)  # the shoulder: half as steep above 0.8
