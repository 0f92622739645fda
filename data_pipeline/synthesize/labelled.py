"""The labelled set: Kvasir v2's folders and class names, with near-identical frames of one scene, as Kvasir has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from data_pipeline.synthesize.devices import DEVICES, Overlay, geometry_of
from data_pipeline.synthesize.media import write_image
from data_pipeline.synthesize.motion import look
from data_pipeline.synthesize.plan import SIZES
from data_pipeline.synthesize.randomness import generator, stable_uuid
from data_pipeline.synthesize.scene import KVASIR_CLASSES, make_scene

FOLDER = "kvasir-dataset-v2"
IMAGES_PER_CLASS = 40  # in `small`
PICTURE_SIZES = ((360, 288), (400, 320), (384, 288))
# How many images of each 40 come in groups of three and of two; in these classes all are scenes of their own:
SINGLE_ONLY = ("normal-pylorus", "ulcerative-colitis")
GROUPS_PER_40 = (3, 3, 3, 3, 2, 2, 2, 2)


@dataclass(frozen=True)
class LabelledPlan:
    """One scene of the labelled set and the images taken of it."""

    label: str
    scene: int  # number within the class
    paths: tuple[str, ...]
    device: str
    width: int
    height: int
    group: int | None


def plan_labelled(size: str, seed: int) -> list[LabelledPlan]:
    plans: list[LabelledPlan] = []
    group = 0
    for label in KVASIR_CLASSES:
        left = IMAGES_PER_CLASS * SIZES[size]
        counts = [] if label in SINGLE_ONLY else list(GROUPS_PER_40) * SIZES[size]
        counts += [1] * (left - sum(counts))
        for scene, count in enumerate(counts):
            rng = generator(seed, "labelled", label, scene)
            width, height = PICTURE_SIZES[rng.integers(len(PICTURE_SIZES))]
            names = [stable_uuid(seed, "labelled", label, scene, i) for i in range(count)]
            plans.append(
                LabelledPlan(
                    label=label,
                    scene=scene,
                    paths=tuple(f"{FOLDER}/{label}/{name}.jpg" for name in names),
                    device=DEVICES[rng.integers(len(DEVICES))],
                    width=width,
                    height=height,
                    group=group if count > 1 else None,
                )
            )
            group += count > 1
    return plans


def make_labelled(directory: Path, plan: LabelledPlan, seed: int) -> None:
    """Write the images of one scene, a fraction of a second apart."""
    key = (seed, "labelled", plan.label, plan.scene)
    scene = make_scene(plan.label, *key)
    geometry = geometry_of(plan.device, plan.width, plan.height)
    overlay = Overlay(geometry, *key)
    left, top, right, bottom = geometry.field_of_view.box
    for number, path in enumerate(plan.paths):
        seconds = 0.12 * number
        picture = look(scene, seconds, right - left, bottom - top, blur=False)
        write_image(directory / path, overlay.compose(picture, seconds), jpeg_quality=92)
