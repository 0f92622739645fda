"""What a corpus of one size and seed holds, decided before the first image is made.

A `SourcePlan` says all about one video or image folder; making it is a pure function of plan and seed, so that sources
can be made in any order and in any process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from panendofm.synthetic.scene.devices import CAPSULE, FULL_FRAME
from panendofm.synthetic.scene.place import KVASIR_CLASSES
from panendofm.synthetic.scene.randomness import generator
from panendofm.synthetic.truth import Span

COLON = ("polyps", "dyed-lifted-polyps", "ulcerative-colitis", "colon", "dyed-resection-margins", "normal-cecum")
UPPER = ("normal-z-line", "normal-pylorus", "esophagitis")
RI_VCE_ORGANS = {
    "1_esophagus": ("normal-z-line", "esophagitis"),
    "2_stomach": ("normal-pylorus",),
    "3_small_bowel": ("small-bowel",),
    "4_colon": ("polyps", "ulcerative-colitis", "colon", "normal-cecum"),
}


class Size(NamedTuple):
    """How many times as much as `small` has."""

    sources: int  # and images with masks; 0: `imbalanced.py` plans its own, and nothing else is planted
    labeled: int


# A gain in kNN of some points is told from noise by 640 labeled images, not by 320.
SIZES = {"small": Size(1, 1), "demo": Size(1, 2), "medium": Size(5, 5), "imbalanced": Size(0, 1)}


@dataclass(frozen=True)
class LeakPlan:
    """An evaluation image that will be shown in some frames of a source."""

    evaluation_image: str
    transformation: str
    first: int
    last: int


@dataclass(frozen=True)
class SourcePlan:
    """One video file, or one folder of images."""

    path: str  # the file, or the folder for images
    corpus: str
    codec: str  # h264, mjpeg, mpeg4; png, jpg for a folder of images
    device: str
    width: int
    height: int
    frames: int
    fps: Fraction
    scenes: tuple[Span, ...]
    keyframe_interval: int = 12
    faults: tuple[Span, ...] = ()
    variable_frame_rate: bool = False
    narrow_band: bool = False
    file_name: str = ""  # images: format of the n-th file's name
    first_number: int = 1  # images: number of the first file
    leaks: tuple[LeakPlan, ...] = ()
    index_first: bool = True  # mp4: the index before the frames, so that a cut file still opens

    @property
    def is_video(self) -> bool:
        return self.codec not in ("png", "jpg")


def _segments(kinds: tuple[str, ...], frames: int, per_scene: int, rng: np.random.Generator) -> tuple[Span, ...]:
    """Cut a source into scenes of about `per_scene` frames, each kind as often as the others."""
    count = max(1, round(frames / per_scene))
    edges = np.linspace(0, frames, count + 1).round().astype(int)
    begin = int(rng.integers(len(kinds)))
    return tuple(Span(kinds[(begin + i) % len(kinds)], int(edges[i]), int(edges[i + 1]) - 1) for i in range(count))


def _faults(frames: int, rng: np.random.Generator, *kinds: str) -> tuple[Span, ...]:
    """Stretches of an eighth of the source, each in a part of its own."""
    length = max(6, frames // 8)
    part = frames // max(1, len(kinds))
    starts = [number * part + int(rng.integers(0, max(1, part - length))) for number in range(len(kinds))]
    return tuple(Span(kind, start, start + length - 1) for kind, start in zip(kinds, starts, strict=True))


def plan_sources(size: str, seed: int) -> list[SourcePlan]:
    """All sources but the copies and the broken files."""
    times = SIZES[size].sources
    return [
        *_colonoscopicds(times, seed),
        *_ldpolypvideo(times, seed),
        *_endofm(times, seed),
        *_ers(times, seed),
        *_ri_vce(times, seed),
    ]


def _colonoscopicds(times: int, seed: int) -> list[SourcePlan]:
    plans = []
    devices = ("octagon_side_text_box", "octagon", "circle")
    for number, (folder, lesion) in enumerate(
        (f, n) for n in range(times) for f in ("adenoma", "hyperplasic", "serrated")
    ):
        rng = generator(seed, "plan", "colonoscopicds", number)
        scenes = _segments(COLON, 100, 25, rng)
        white = SourcePlan(
            path=f"colonoscopicds/{folder}/{folder}_{lesion + 1:02d}_WL.mp4",
            corpus="colonoscopicds",
            codec="h264",
            device=devices[number % 3],
            width=(480, 640, 384)[number % 3],
            height=(384, 480, 288)[number % 3],
            frames=100,
            fps=Fraction(25),
            scenes=scenes,
            keyframe_interval=(25, 250, 50)[number % 3],
            faults=_faults(100, rng, *(("dark", "frozen"), ("blurred",), ())[number % 3]),
        )
        narrow = replace(
            white,
            path=white.path.replace("_WL", "_NBI"),
            narrow_band=True,
            frames=75,
            scenes=_segments(COLON, 75, 25, rng),
            faults=(),
            variable_frame_rate=number % 3 == 1,
        )
        plans += [white, narrow]
    return plans


def _ldpolypvideo(times: int, seed: int) -> list[SourcePlan]:
    plans = []
    for number in range(4 * times):
        rng = generator(seed, "plan", "ldpolypvideo", number)
        plans.append(
            SourcePlan(
                path=f"ldpolypvideo/Videos/{number + 1}.avi",
                corpus="ldpolypvideo",
                codec="mjpeg",
                device=("wide_circle", "octagon_side_text", "rectangle", "circle_box")[number % 4],
                width=(400, 480, 440, 400)[number % 4],
                height=(320, 384, 352, 320)[number % 4],
                frames=100,
                fps=(Fraction(25), Fraction(30), Fraction(30000, 1001), Fraction(25))[number % 4],
                scenes=_segments(COLON, 100, 25, rng),
                keyframe_interval=1,
                faults=_faults(100, rng, *(("washed_out",), (), ("frozen",), ("dark", "blurred"))[number % 4]),
            )
        )
    for number in range(3 * times):
        rng = generator(seed, "plan", "ldpolypvideo-images", number)
        part = "Test" if number % 3 == 2 else "TrainValid"
        plans.append(
            SourcePlan(
                path=f"ldpolypvideo/{part}/Images/{number + 1}",
                corpus="ldpolypvideo",
                codec="jpg",
                device=("octagon", "octagon_box", "wide_circle")[number % 3],
                width=400,
                height=320,
                frames=24,
                fps=Fraction(5),
                scenes=_segments(("polyps", "colon"), 24, 8, rng),
                file_name="{:04d}.jpg",
            )
        )
    return plans


# component, kinds, device, faults
_ENDOFM = (
    ("Hyper-Kvasir", UPPER, "wide_circle", ("blurred",)),
    ("Hyper-Kvasir", COLON, FULL_FRAME, ()),
    ("Hyper-Kvasir", KVASIR_CLASSES, "octagon_box", ("dark",)),
    ("Renji-gastroscope", UPPER, FULL_FRAME, ("washed_out",)),
    ("Renji-gastroscope", UPPER, "octagon", ()),
    ("Renji-colonoscope", COLON, "octagon", ("frozen",)),
    ("Renji-colonoscope", COLON, "rectangle", ()),
    ("Kvasir-Capsule", ("small-bowel", "normal-pylorus", "colon"), CAPSULE, ()),
    ("CholecTriplet", ("abdomen",), FULL_FRAME, ()),
)


def _endofm(times: int, seed: int) -> list[SourcePlan]:
    plans = []
    for component in dict.fromkeys(row[0] for row in _ENDOFM):
        rows = [row for row in _ENDOFM if row[0] == component]
        for number in range(len(rows) * times):
            _, kinds, device, faults = rows[number % len(rows)]
            rng = generator(seed, "plan", "endofm", component, number)
            plans.append(
                SourcePlan(
                    path=f"endofm-pretrain/{component}/{number + 1:05d}.mp4",
                    corpus="endofm-pretrain",
                    codec="mpeg4",
                    device=device,
                    width=256 if device in (CAPSULE, FULL_FRAME) else 320,
                    height=256,
                    frames=150,
                    fps=Fraction(30),
                    scenes=_segments(kinds, 150, 25, rng),
                    faults=_faults(150, rng, *faults),
                )
            )
    return plans


def _ers(times: int, seed: int) -> list[SourcePlan]:
    plans = []
    for number in range(3 * times):
        rng = generator(seed, "plan", "ers", number)
        device = ("octagon_box", "wide_circle_box", "circle")[number % 3]
        folders = [("samples", 8, 1), ("seq_01", 12, 6)]
        for folder, frames, per_scene in folders:
            plans.append(
                SourcePlan(
                    path=f"ers/{number + 1:04d}/{folder}/frames",
                    corpus="ers",
                    codec="png",
                    device=device,
                    width=360,
                    height=288,
                    frames=frames,
                    fps=Fraction(4),
                    scenes=_segments(KVASIR_CLASSES, frames, per_scene, rng),
                    faults=_faults(frames, rng, "blurred") if number % 3 == 2 and folder != "samples" else (),
                    file_name="{:06d}.png",
                )
            )
    return plans


def _ri_vce(times: int, seed: int) -> list[SourcePlan]:
    plans = []
    for study in range(2 * times):
        number = 1
        for organ, kinds in RI_VCE_ORGANS.items():
            rng = generator(seed, "plan", "ri-vce", study, organ)
            plans.append(
                SourcePlan(
                    path=f"ri-vce/s{study + 1:03d}/{organ}",
                    corpus="ri-vce",
                    codec="png",
                    device=CAPSULE,
                    width=320,
                    height=320,
                    frames=8,
                    fps=Fraction(2),
                    scenes=_segments(kinds, 8, 2, rng),
                    file_name="image-{:05d}.png",
                    first_number=number,
                )
            )
            number += 8
    return plans
