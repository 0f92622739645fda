"""What a clean corpus would not hold: leaked evaluation images, copies, broken files. The truth lists all of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from panendofm.synthetic.labeled import LabeledPlan
from panendofm.synthetic.media import encode_image, read_video, write_video
from panendofm.synthetic.plan import SIZES, LeakPlan, SourcePlan
from panendofm.synthetic.scene.devices import FULL_FRAME, Pixels
from panendofm.synthetic.scene.motion import look
from panendofm.synthetic.scene.place import make_scene
from panendofm.synthetic.scene.randomness import generator
from panendofm.synthetic.sources import geometry_name, make_source, seconds_of
from panendofm.synthetic.truth import Defect, Duplicate, Leak, Source, Span

# Which of the planned sources show an evaluation image. None of them is copied, so that no leak multiplies unseen.
LEAKING = {
    "colonoscopicds/adenoma/adenoma_01_WL.mp4": "re_encoded",
    "ldpolypvideo/Videos/2.avi": "brightness_shifted",
    "ldpolypvideo/Videos/3.avi": "re_encoded",
    "ldpolypvideo/TrainValid/Images/1": "brightness_shifted",
    "ldpolypvideo/TrainValid/Images/2": "re_encoded",
    "endofm-pretrain/Hyper-Kvasir/00001.mp4": "re_encoded",
    "endofm-pretrain/Hyper-Kvasir/00003.mp4": "brightness_shifted",
    "endofm-pretrain/Renji-gastroscope/00001.mp4": "border_cropped",
    "endofm-pretrain/Renji-colonoscope/00001.mp4": "re_encoded",
    "ers/0001/samples/frames": "re_encoded",
    "ers/0002/seq_01/frames": "brightness_shifted",
    "ers/0003/samples/frames": "re_encoded",
}
LEAK_FRAMES = 12  # how long a video shows it


def add_leaks(plans: list[SourcePlan], labeled: list[LabeledPlan], seed: int) -> list[SourcePlan]:
    """The plans, some of them with an evaluation image inside. A video that shows a still stands still meanwhile."""
    taken: set[str] = set()
    result = []
    for plan in plans:
        if plan.path not in LEAKING:
            result.append(plan)
            continue
        rng = generator(seed, "leak", plan.path)
        fitting = [p for p in labeled if _fits(plan, p) and not taken.intersection(p.paths)]
        chosen = fitting[rng.integers(len(fitting))]
        transformation = LEAKING[plan.path]
        if transformation == "re_encoded" and (plan.width, plan.height) != (chosen.width, chosen.height):
            transformation = "resized"
        taken.update(chosen.paths)
        first, last = _free_stretch(plan)
        leak = LeakPlan(chosen.paths[0], transformation, first, last)
        frozen = (Span("frozen", first, last),) if plan.is_video else ()
        faults = tuple(sorted((*plan.faults, *frozen), key=lambda span: span.first))
        result.append(replace(plan, leaks=(leak,), faults=faults))
    return result


def _fits(plan: SourcePlan, labeled: LabeledPlan) -> bool:
    """A leaked image keeps its border, so source and image have the same layout."""
    if plan.device == FULL_FRAME:
        return labeled.device == "rectangle"
    return labeled.device == plan.device and labeled.width * plan.height == labeled.height * plan.width


def _free_stretch(plan: SourcePlan) -> tuple[int, int]:
    length = LEAK_FRAMES if plan.is_video else 1
    begin = plan.frames // 2
    for first in [*range(begin, plan.frames - length), *range(1, begin)]:
        if all(first > span.last + 1 or first + length < span.first for span in plan.faults):
            return first, first + length - 1
    raise ValueError(f"{plan.path} has no room for a leak")


def describe_leaks(plan: SourcePlan) -> list[Leak]:
    leaks = []
    for leak in plan.leaks:
        path, first, last = plan.path, leak.first, leak.last
        if not plan.is_video:
            path = f"{plan.path}/{plan.file_name.format(plan.first_number + first)}"
            first = last = 0
        seconds = [round(seconds_of(plan, frame), 4) if plan.is_video else 0.0 for frame in (first, last)]
        leaks.append(Leak(path, leak.evaluation_image, leak.transformation, first, last, *seconds))
    return leaks


@dataclass(frozen=True)
class CopyPlan:
    """A video made from another one's file."""

    path: str
    of: SourcePlan
    how: str
    codec: str
    width: int
    height: int
    fps: Fraction


def plan_copies(plans: list[SourcePlan], size: str) -> list[CopyPlan]:
    """EndoFM-pretrain re-uses ColonoscopicDS and LDPolypVideo; the others are accidents of collecting."""
    by_path = {plan.path: plan for plan in plans}
    times = SIZES[size].sources
    copies: list[CopyPlan] = []
    if not times:
        return copies
    for component, source, width in (
        ("Colonoscopic", "colonoscopicds/hyperplasic/hyperplasic_01_WL.mp4", 342),
        ("LDPolypVideo", "ldpolypvideo/Videos/1.avi", 320),
    ):
        path = f"endofm-pretrain/{component}/00001.mp4"
        copies.append(CopyPlan(path, by_path[source], "resized", "mpeg4", width, 256, Fraction(30)))
    again = by_path["ldpolypvideo/Videos/4.avi"]
    path = f"ldpolypvideo/Videos/{4 * times + 1}.avi"
    copies.append(CopyPlan(path, again, "re_encoded", "mjpeg", again.width, again.height, again.fps))
    same = by_path["colonoscopicds/serrated/serrated_01_WL.mp4"]
    path = f"colonoscopicds/adenoma/adenoma_{times + 1:02d}_WL.mp4"
    copies.append(CopyPlan(path, same, "byte_copy", same.codec, same.width, same.height, same.fps))
    assert not any(copy.of.leaks for copy in copies)
    return copies


def make_copy(directory: Path, copy: CopyPlan) -> None:
    if copy.how == "byte_copy":
        shutil.copyfile(directory / copy.of.path, directory / copy.path)
        return
    interval = 1 if copy.codec == "mjpeg" else 12
    write_video(directory / copy.path, _resized(directory / copy.of.path, copy), copy.codec, copy.fps, interval)


def _resized(path: Path, copy: CopyPlan) -> Iterator[Pixels]:
    for frame in islice(read_video(path), copy.of.frames):
        if frame.shape[:2] != (copy.height, copy.width):
            frame = np.asarray(cv2.resize(frame, (copy.width, copy.height), interpolation=cv2.INTER_AREA), np.uint8)
        yield frame


def describe_copy(copy: CopyPlan, of: Source) -> tuple[Source, Duplicate]:
    interval = {"mjpeg": 1, "mpeg4": 12}.get(copy.codec, of.keyframe_interval)
    source = replace(
        of,
        path=copy.path,
        corpus=copy.path.split("/")[0],
        codec=copy.codec,
        geometry=geometry_name(copy.of.device, copy.width, copy.height),
        fps=round(float(copy.fps), 3),
        keyframe_interval=interval,
    )
    return source, Duplicate(copy.path, copy.of.path, copy.how, of.frames)


@dataclass(frozen=True)
class DefectPlan:
    """A broken file; `template` is the video that it would have been."""

    path: str
    what: str
    detail: str
    template: SourcePlan | None = None


def plan_defects(plans: list[SourcePlan], size: str) -> list[DefectPlan]:
    by_path = {plan.path: plan for plan in plans}
    times = SIZES[size].sources
    if not times:
        return []
    truncated = f"colonoscopicds/hyperplasic/hyperplasic_{times + 1:02d}_WL.mp4"
    no_index = f"endofm-pretrain/Renji-colonoscope/{2 * times + 1:05d}.mp4"
    like_colonoscopic = by_path["colonoscopicds/serrated/serrated_01_WL.mp4"]
    like_endofm = replace(by_path["endofm-pretrain/Renji-colonoscope/00002.mp4"], index_first=False)
    return [
        DefectPlan(truncated, "truncated", "", _shortened(like_colonoscopic, truncated)),
        DefectPlan(no_index, "no_index", "", _shortened(like_endofm, no_index)),
        DefectPlan(f"ldpolypvideo/Videos/{4 * times + 2}.avi", "zero_bytes", "empty"),
        DefectPlan("ers/0002/samples/frames/000009.png", "zero_bytes", "empty"),
        DefectPlan(f"endofm-pretrain/Hyper-Kvasir/{3 * times + 1:05d}.mp4", "wrong_extension", "a JPEG picture"),
        DefectPlan("ldpolypvideo/Test/Images/3/0025.jpg", "wrong_extension", "a text"),
    ]


def _shortened(plan: SourcePlan, path: str) -> SourcePlan:
    """A video like another one, but brief and with images of its own."""
    scenes = (Span("colon", 0, 39),)
    return replace(plan, path=path, frames=40, scenes=scenes, faults=(), leaks=(), keyframe_interval=10)


def make_defect(directory: Path, defect: DefectPlan, seed: int) -> Defect:
    path = directory / defect.path
    path.parent.mkdir(parents=True, exist_ok=True)
    detail = defect.detail
    if defect.template is not None:
        make_source(directory, defect.template, seed)
        content = path.read_bytes()
        kept = round(0.6 * len(content))
        path.write_bytes(content[:kept])
        detail = f"the first {kept} of {len(content)} bytes of a video of {defect.template.frames} frames"
    elif defect.what == "zero_bytes":
        path.touch()
    elif defect.detail == "a text":
        path.write_text("This is not a picture.\n", encoding="utf-8")
    else:
        image = look(make_scene("polyps", seed, defect.path), 0.0, 320, 256)
        path.write_bytes(encode_image(cv2.convertScaleAbs(image, alpha=255.0), ".jpg"))
    return Defect(defect.path, defect.what, detail)
