"""The labeled set: Kvasir v2's folders and class names, with near-identical frames of one scene, as Kvasir has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from panendofm.synthetic.media import write_image
from panendofm.synthetic.plan import SIZES
from panendofm.synthetic.regions import Region, regions_of
from panendofm.synthetic.scene.devices import Overlay, geometry_of
from panendofm.synthetic.scene.motion import look
from panendofm.synthetic.scene.place import KVASIR_CLASSES, make_scene
from panendofm.synthetic.scene.randomness import generator, stable_uuid

FOLDER = "kvasir-dataset-v2"
IMAGES_PER_CLASS = 40  # in `small`
IMAGE_SIZES = ((360, 288), (400, 320), (384, 288))
# Independent of the class: what is around the image must not give the class away.
DEVICE_SHARES = {
    "octagon": 0.50,
    "octagon_box": 0.06,
    "octagon_side_text": 0.015,
    "octagon_side_text_box": 0.015,
    "wide_circle": 0.30,
    "wide_circle_box": 0.05,
    "circle": 0.015,
    "circle_box": 0.015,
    "rectangle": 0.015,
    "rectangle_box": 0.015,
}
# How many images of each 40 come in groups of three and of two; in these classes all are scenes of their own:
SINGLE_ONLY = ("normal-pylorus", "ulcerative-colitis")
GROUPS_PER_40 = (3, 3, 3, 3, 2, 2, 2, 2)


@dataclass(frozen=True)
class LabeledPlan:
    """One scene of the labeled set and the images taken of it."""

    label: str
    scene: int  # number within the class
    paths: tuple[str, ...]
    device: str
    width: int
    height: int
    group: int | None


def plan_labeled(size: str, seed: int) -> list[LabeledPlan]:
    scenes = [(label, number, count) for label in KVASIR_CLASSES for number, count in enumerate(_counts(label, size))]
    devices = _deal_devices(len(scenes), seed)
    plans: list[LabeledPlan] = []
    groups = 0
    for (label, scene, count), device in zip(scenes, devices, strict=True):
        # Leaks keep their border, so they want an evaluation image of their own device and of the usual format, 5:4.
        sizes = IMAGE_SIZES if DEVICE_SHARES[device] > 0.1 else IMAGE_SIZES[:2]
        width, height = sizes[scene % len(sizes)]
        names = [stable_uuid(seed, "labelled", label, scene, i) for i in range(count)]
        paths = tuple(f"{FOLDER}/{label}/{name}.jpg" for name in names)
        plans.append(LabeledPlan(label, scene, paths, device, width, height, groups if count > 1 else None))
        groups += count > 1
    return plans


def _counts(label: str, size: str) -> list[int]:
    """How many images each scene of a class has."""
    times = SIZES[size].labeled
    grouped = [] if label in SINGLE_ONLY else list(GROUPS_PER_40) * times
    return [*grouped, *[1] * (IMAGES_PER_CLASS * times - sum(grouped))]


def _deal_devices(count: int, seed: int) -> list[str]:
    """A device for each scene, by the shares, in random order."""
    edges = np.cumsum(list(DEVICE_SHARES.values())) * count
    deck = [list(DEVICE_SHARES)[int(np.searchsorted(edges, i + 0.5))] for i in range(count)]
    return [deck[i] for i in generator(seed, "devices").permutation(count)]


def make_labeled(directory: Path, plan: LabeledPlan, seed: int) -> list[Region]:
    """Write the images of one scene, a fraction of a second apart, and return where their lesions are."""
    key = (seed, "labelled", plan.label, plan.scene)
    scene = make_scene(plan.label, *key)
    geometry = geometry_of(plan.device, plan.width, plan.height)
    overlay = Overlay(geometry, *key)
    left, top, right, bottom = geometry.field_of_view.box
    regions: list[Region] = []
    for number, path in enumerate(plan.paths):
        seconds = 0.12 * number
        image = look(scene, seconds, right - left, bottom - top, blur=False)
        write_image(directory / path, overlay.compose(image, seconds), jpeg_quality=92)
        regions += regions_of(scene, seconds, geometry, path)
    return regions
