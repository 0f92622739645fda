"""The segmented set: Kvasir-SEG's layout, polyps with their outline, and images that show none.

    Kvasir-SEG/images/cju….jpg   Kvasir-SEG/masks/cju….jpg   Kvasir-SEG/kavsir_bboxes.json   (sic)

Masks are JPEG, as in the real set: white where the polyp shows, cut by the border, the position box and instruments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.files import write_json
from panendofm.synthetic.labeled import DEVICE_SHARES, IMAGE_SIZES
from panendofm.synthetic.media import write_image
from panendofm.synthetic.plan import SIZES
from panendofm.synthetic.regions import tight_box, visible_lesions
from panendofm.synthetic.scene.devices import Overlay, geometry_of
from panendofm.synthetic.scene.lesions import make_lesion
from panendofm.synthetic.scene.motion import look
from panendofm.synthetic.scene.place import Scene, make_scene
from panendofm.synthetic.scene.randomness import generator, stable_uuid
from panendofm.synthetic.truth import Geometry, Segmented

FOLDER = "Kvasir-SEG"
BOXES_NAME = "kavsir_bboxes.json"
# Scenes of `small`: two thirds with a polyp. Every sixth scene gives two images, a moment apart.
SCENES = {"polyps": 86, "dyed-lifted-polyps": 18, "colon": 32, "ulcerative-colitis": 10, "normal-cecum": 10}
_TWICE_EVERY, _SECOND_POLYP_EVERY = 6, 4
_JPEG_QUALITY = 92


@dataclass(frozen=True)
class SegmentedPlan:
    """One scene and the names of the images taken of it."""

    kind: str
    scene: int
    names: tuple[str, ...]
    device: str
    width: int
    height: int


def plan_segmented(size: str, seed: int) -> list[SegmentedPlan]:
    plans = []
    devices = [name for name in DEVICE_SHARES if DEVICE_SHARES[name] > 0.02]
    for kind, count in SCENES.items():
        for scene in range(count * SIZES[size].sources):
            rng = generator(seed, "segmented", "plan", kind, scene)
            width, height = IMAGE_SIZES[int(rng.integers(len(IMAGE_SIZES)))]
            images = 2 if scene % _TWICE_EVERY == 0 else 1
            names = tuple(_name(seed, kind, scene, i) for i in range(images))
            device = devices[int(rng.integers(len(devices)))]
            plans.append(SegmentedPlan(kind, scene, names, device, width, height))
    return plans


def _name(seed: int, *key: object) -> str:
    return "cju" + stable_uuid(seed, "segmented", *key).replace("-", "")[:22]


def make_segmented(directory: Path, plan: SegmentedPlan, seed: int) -> list[Segmented]:
    """Write the images and masks of one scene; returns what is true of them."""
    key = (seed, "segmented", plan.kind, plan.scene)
    scene = _scene(plan, *key)
    geometry = geometry_of(plan.device, plan.width, plan.height)
    overlay = Overlay(geometry, *key)
    left, top, right, bottom = geometry.field_of_view.box
    described = []
    for number, name in enumerate(plan.names):
        seconds = 0.12 * number
        image = look(scene, seconds, right - left, bottom - top, blur=False)
        write_image(directory / FOLDER / "images" / f"{name}.jpg", overlay.compose(image, seconds), _JPEG_QUALITY)
        masks = _polyps(scene, seconds, geometry)
        union = np.any(masks, axis=0) if masks else np.zeros((plan.height, plan.width), bool)
        white = np.repeat(np.where(union, 255, 0).astype(np.uint8)[..., None], 3, axis=2)
        write_image(directory / FOLDER / "masks" / f"{name}.jpg", white, _JPEG_QUALITY)
        boxes = tuple(tight_box(mask) for mask in masks)
        path, group = f"{FOLDER}/images/{name}.jpg", f"{plan.kind}/{plan.scene}"
        described.append(Segmented(path, plan.kind, group, plan.width, plan.height, boxes))
    return described


def _scene(plan: SegmentedPlan, *key: object) -> Scene:
    """Every fourth scene of plain polyps has a second, smaller one on the other side of the image."""
    scene = make_scene(plan.kind, *key)
    if plan.kind != "polyps" or plan.scene % _SECOND_POLYP_EVERY:
        return scene
    rng, first = generator("second polyp", *key), scene.lesions[0]
    x = scene.center[0] + np.exp(first.log_radius) * np.cos(first.angle)
    y = scene.center[1] + np.exp(first.log_radius) * np.sin(first.angle)
    # In image space, half the height is 1; seen from the lumen's middle as all places are.
    x, y = (
        -np.sign(x) * rng.uniform(0.55, 0.75) - scene.center[0],
        -np.sign(y) * rng.uniform(0.3, 0.5) - scene.center[1],
    )
    angle, log_radius = float(np.arctan2(y, x)), float(np.log(max(0.2, np.hypot(x, y))))
    size = float(rng.uniform(0.16, 0.24))
    second = make_lesion("polyp", rng, angle, log_radius, size, first.color, first.second_color)
    return replace(scene, lesions=(*scene.lesions, second))


def _polyps(scene: Scene, seconds: float, geometry: Geometry) -> list[NDArray[np.bool_]]:
    return [mask for lesion, mask in visible_lesions(scene, seconds, geometry) if lesion.shape == "polyp"]


def write_boxes(directory: Path, images: list[Segmented]) -> None:
    """The official file of boxes: {NAME: {height, width, bbox: [{label, xmin, ymin, xmax, ymax}]}}."""
    content: dict[str, Any] = {
        Path(p.path).stem: {
            "height": p.height,
            "width": p.width,
            "bbox": [{"label": "polyp", "xmin": x1, "ymin": y1, "xmax": x2, "ymax": y2} for x1, y1, x2, y2 in p.boxes],
        }
        for p in images
    }
    write_json(directory / FOLDER / BOXES_NAME, content)
