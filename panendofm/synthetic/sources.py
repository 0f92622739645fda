"""Make one planned source: render its frames and encode them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from panendofm.synthetic.media import read_image, write_image, write_video
from panendofm.synthetic.plan import LeakPlan, SourcePlan
from panendofm.synthetic.regions import tight_box, visible_lesions
from panendofm.synthetic.scene.devices import FULL_FRAME, Overlay, Pixels, geometry_of
from panendofm.synthetic.scene.motion import look, narrow_band, spoil
from panendofm.synthetic.scene.place import Scene, make_scene
from panendofm.synthetic.scene.randomness import generator
from panendofm.synthetic.truth import Box, Geometry, Source

BRIGHTNESS_GAIN, BRIGHTNESS_OFFSET = 0.80, 22.0
# ERS codes of findings, by scene; the code table is not public, these are the groups that are known.
ERS_CODES = {
    "polyps": "c22",
    "dyed-lifted-polyps": "c22",
    "dyed-resection-margins": "c26",
    "ulcerative-colitis": "c25",
    "esophagitis": "g03",
}
ERS_HEALTHY, ERS_BLURRED = "h01", "q02"


def geometry_name(device: str, width: int, height: int) -> str:
    return f"{device}/{width}x{height}"


def describe(plan: SourcePlan) -> Source:
    """The truth about a planned source."""
    times = frame_times_ms(plan)
    fps = float(plan.fps) if times is None else 1000 * (plan.frames - 1) / (times[-1] - times[0])
    return Source(
        path=plan.path,
        corpus=plan.corpus,
        media="video" if plan.is_video else "images",
        codec=plan.codec,
        geometry=geometry_name(plan.device, plan.width, plan.height),
        frames=plan.frames,
        fps=round(fps, 3) if plan.is_video else 0.0,
        variable_frame_rate=plan.variable_frame_rate,
        keyframe_interval=plan.keyframe_interval if plan.is_video else 0,
        scenes=plan.scenes,
        faults=plan.faults,
    )


def frame_times_ms(plan: SourcePlan) -> list[int] | None:
    """When each frame is shown, for a video with a variable frame rate."""
    if not plan.variable_frame_rate:
        return None
    rng = generator("times", plan.path)
    steps = rng.choice([20, 33, 40, 67, 120], size=plan.frames - 1, p=[0.15, 0.3, 0.3, 0.15, 0.1])
    return [0, *(int(t) for t in np.cumsum(steps))]


def seconds_of(plan: SourcePlan, frame: int) -> float:
    times = frame_times_ms(plan)
    return float(frame / plan.fps) if times is None else times[frame] / 1000


def make_source(directory: Path, plan: SourcePlan, seed: int) -> None:
    """Write the video or the folder of images, with the label files of its corpus."""
    if plan.is_video:
        times = frame_times_ms(plan)
        write_video(
            directory / plan.path,
            _frames(directory, plan, seed),
            plan.codec,
            plan.fps,
            plan.keyframe_interval,
            times,
            plan.index_first,
        )
        return
    for number, frame in enumerate(_frames(directory, plan, seed)):
        write_image(directory / plan.path / plan.file_name.format(plan.first_number + number), frame)
    if plan.corpus == "ers":
        _write_ers_labels(directory, plan)
    elif plan.corpus == "ldpolypvideo":
        _write_polyp_boxes(directory, plan, seed)


def scene_of(plan: SourcePlan, number: int, seed: int) -> Scene:
    return make_scene(plan.scenes[number].what, seed, plan.path, number)


def _frames(directory: Path, plan: SourcePlan, seed: int) -> Iterator[Pixels]:
    geometry = geometry_of(plan.device, plan.width, plan.height)
    overlay = Overlay(geometry, seed, plan.path)
    left, top, right, bottom = geometry.field_of_view.box
    faults = {frame: span for span in plan.faults for frame in range(span.first, span.last + 1)}
    leaks = {frame: leak for leak in plan.leaks for frame in range(leak.first, leak.last + 1)}
    frame: Pixels | None = None
    for number, span in enumerate(plan.scenes):
        scene = scene_of(plan, number, seed)
        for index in range(span.first, span.last + 1):
            if index in leaks:
                if frame is None or leaks[index].first == index:
                    frame = leaked_frame(directory, leaks[index], plan.device, geometry)
            elif frame is None or index not in faults or faults[index].what != "frozen" or faults[index].first == index:
                seconds = seconds_of(plan, index)
                image = look(scene, seconds, right - left, bottom - top)
                if plan.narrow_band:
                    image = narrow_band(image)
                if index in faults:
                    image = spoil(image, faults[index].what)
                frame = overlay.compose(image, seconds)
            yield frame


def leaked_frame(directory: Path, leak: LeakPlan, device: str, geometry: Geometry) -> Pixels:
    """The evaluation image as it shows in a source."""
    image = read_image(directory / leak.evaluation_image)
    if device == FULL_FRAME:
        view = geometry_of("rectangle", image.shape[1], image.shape[0]).field_of_view.box
        image = image[view[1] : view[3], view[0] : view[2]]
    image = cv2.resize(image, (geometry.width, geometry.height), interpolation=cv2.INTER_AREA)
    if leak.transformation == "brightness_shifted":
        shifted = np.clip(image * BRIGHTNESS_GAIN + BRIGHTNESS_OFFSET, 0, 255).astype(np.uint8)
        image = np.where(geometry.visible_mask()[..., None], shifted, image)
    return np.asarray(image, np.uint8)


def _write_ers_labels(directory: Path, plan: SourcePlan) -> None:
    """ERS marks a finding without an outline by an empty file whose name holds the finding's code."""
    labels = (directory / plan.path).parent / "labels"
    labels.mkdir()
    blurred = {frame for span in plan.faults for frame in range(span.first, span.last + 1) if span.what == "blurred"}
    for span in plan.scenes:
        for index in range(span.first, span.last + 1):
            code = ERS_BLURRED if index in blurred else ERS_CODES.get(span.what, ERS_HEALTHY)
            (labels / f"{plan.first_number + index:06d}_{code}.png").touch()


def _write_polyp_boxes(directory: Path, plan: SourcePlan, seed: int) -> None:
    """LDPolypVideo's annotation: the number of polyps, then left, top, right, bottom of each."""
    folder = directory / plan.path.replace("/Images/", "/Annotations/")
    folder.mkdir(parents=True)
    geometry = geometry_of(plan.device, plan.width, plan.height)
    leaked = {frame for leak in plan.leaks for frame in range(leak.first, leak.last + 1)}
    for number, span in enumerate(plan.scenes):
        scene = scene_of(plan, number, seed)
        for index in range(span.first, span.last + 1):
            boxes = [] if index in leaked else polyp_boxes(scene, seconds_of(plan, index), geometry)
            lines = [str(len(boxes)), *(" ".join(str(v) for v in box) for box in boxes)]
            name = plan.file_name.format(plan.first_number + index).replace(".jpg", ".txt")
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def polyp_boxes(scene: Scene, seconds: float, geometry: Geometry) -> list[Box]:
    return [tight_box(mask) for lesion, mask in visible_lesions(scene, seconds, geometry) if lesion.shape == "polyp"]
