"""One synthetic examination whose events are known: a video for the report of findings over time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text
from panendofm.synthetic.media import write_video
from panendofm.synthetic.scene.devices import Overlay, Pixels, geometry_of
from panendofm.synthetic.scene.motion import look
from panendofm.synthetic.scene.place import KVASIR_CLASSES, make_scene
from panendofm.synthetic.scene.randomness import generator

FPS = 5
_SIZE, _DEVICE = (400, 320), "octagon"
_SHORTEST_SECONDS, _LONGEST_SECONDS = 3.0, 6.0


def plan_events(events: int, seed: int) -> list[tuple[str, int]]:
    """Label and frames of each event; no two neighbors are of one class."""
    random = generator(seed, "examination")
    plan: list[tuple[str, int]] = []
    while len(plan) < events:
        label = KVASIR_CLASSES[int(random.integers(len(KVASIR_CLASSES)))]
        if plan and plan[-1][0] == label:
            continue
        plan.append((label, round(FPS * float(random.uniform(_SHORTEST_SECONDS, _LONGEST_SECONDS)))))
    return plan


def write_examination(path: Path, events: int = 10, seed: int = 0) -> None:
    """PATH.mp4, and beside it a CSV start_seconds,end_seconds,label. Its scenes are in no other file."""
    plan = plan_events(events, seed)
    frames = write_video(path, _frames(plan, seed), "h264", Fraction(FPS), FPS)
    rows = []
    at = 0
    for label, length in plan:
        rows.append([f"{at / FPS:g}", f"{(at + length) / FPS:g}", label])
        at += length
    write_text(path.with_suffix(".csv"), csv_text(("start_seconds", "end_seconds", "label"), rows))
    say(f"{events} events, {frames / FPS:.0f} s → {path}; truth: {path.with_suffix('.csv')}")


def _frames(plan: list[tuple[str, int]], seed: int) -> Iterator[Pixels]:
    geometry = geometry_of(_DEVICE, *_SIZE)
    overlay = Overlay(geometry, seed, "examination")
    left, top, right, bottom = geometry.field_of_view.box
    at = 0
    for number, (label, length) in enumerate(plan):
        scene = make_scene(label, seed, "examination", number)
        for i in range(length):
            image = look(scene, i / FPS, right - left, bottom - top)
            yield overlay.compose(image, at / FPS)
            at += 1
