"""What one image costs to be hashed, cleaned and guarded, on one core.

    python -m benchmarks.images [FOLDER] [--images 40]

FOLDER holds images, such as Kvasir's; without it they are drawn. JPEG decoding alone is measured beside.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from benchmarks.figures import Figure, Size
from data_pipeline import PipelineConfig
from data_pipeline.screening.evaluation_sets import read_guarded_images
from panendofm.imaging.frame_filters.clean import Cleaner, field_of_view_hash
from panendofm.imaging.images import open_image
from panendofm.synthetic.labeled import make_labeled, plan_labeled

# CPU milliseconds of an image.
GOALS = {"hash": 15.0, "clean": 40.0, "guard": 25.0}


def measure(folder: Path, paths: list[str]) -> dict[str, float]:
    """CPU milliseconds of an image, reading its file included; the first image warms up and is not counted."""
    config, cleaner = PipelineConfig(), Cleaner()
    ways: dict[str, Callable[[str], object]] = {
        "decode": lambda path: np.asarray(open_image(folder / path)),
        "hash": lambda path: field_of_view_hash(np.asarray(open_image(folder / path))),
        "clean": lambda path: cleaner(np.asarray(open_image(folder / path))),
        "guard": lambda path: read_guarded_images(folder, "set", [path], config),
    }
    found = {}
    for name, way in ways.items():
        way(paths[0])
        began = time.process_time()
        for path in paths[1:]:
            way(path)
        found[name] = 1e3 * (time.process_time() - began) / (len(paths) - 1)
    return found


def some_images(folder: Path, count: int) -> list[str]:
    """Spread over the folder."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))
    return paths[:: max(1, len(paths) // count)][:count]


def drawn_images(folder: Path, count: int) -> list[str]:
    for plan in plan_labeled("small", 0)[:: max(1, 200 // count)]:
        make_labeled(folder, plan, 0)
    return some_images(folder, count)


def figures(size: Size) -> list[Figure]:
    """On Kvasir where ENDOSCOPY_DATA names a folder that has it, else on images of the synthetic corpus."""
    cv2.setNumThreads(1)
    count = 24 if size == "small" else 200
    real = Path(os.environ.get("ENDOSCOPY_DATA", "")) / "kvasir-v1"
    with tempfile.TemporaryDirectory() as scratch:
        if real.is_dir():
            found, what = measure(real, some_images(real, count)), "Kvasir v1"
        else:
            folder = Path(scratch)
            found, what = measure(folder, drawn_images(folder, count)), "drawn images"
    return [
        Figure(f"{name}, {what}", found[name], "CPU ms", f"decoding alone, {found['decode']:.1f} ms", goal)
        for name, goal in GOALS.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--images", type=int, default=40)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        choose = some_images if arguments.folder else drawn_images
        for name, milliseconds in measure(folder, choose(folder, arguments.images)).items():
            print(f"{name:8} {milliseconds:7.1f} ms of one core an image")


if __name__ == "__main__":
    main()
