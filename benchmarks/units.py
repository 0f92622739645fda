"""What a unit of work of `shard` costs beside decoding alone, with text screens and guard on: real images are needed.

    python -m benchmarks.units FOLDER [--every N] [--videos FILE …]

Every N-th image below FOLDER is decoded, and goes through one unit of work. So does each video. All is processor time
of one thread, in one run. What the steps of an image cost alone, `benchmarks/images.py` tells.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from data_pipeline import CorpusConfig, PipelineConfig, plan
from data_pipeline.decode import DecodeConfig, frames_of
from data_pipeline.screening.evaluation_sets import read_guarded_images
from data_pipeline.screening.screen_sources import process_unit
from panendofm.imaging.frame_filters.clean import Cleaner
from panendofm.imaging.images import open_image
from panendofm.imaging.leakage import Guard, build_guard

KEY = b"k" * 32


def spent(work: Callable[[], object]) -> float:
    """Processor seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure_images(paths: list[Path], guard: Guard) -> None:
    Cleaner()(np.asarray(open_image(paths[0])))  # loads the text detector
    alone = spent(lambda: [open_image(path) for path in paths]) / len(paths)
    whole = spent(lambda: unit_of_work(paths, guard)) / len(paths)
    print(f"{len(paths)} images: decoding {1000 * alone:.1f} ms, unit of work {1000 * whole:.1f} ms an image, ", end="")
    print(f"{whole / alone:.1f} x", flush=True)


def measure_video(path: Path, guard: Guard) -> None:
    frames = 0

    def decode() -> None:
        nonlocal frames
        frames = sum(1 for _ in frames_of(path, DecodeConfig()))

    alone = spent(decode)
    whole = spent(lambda: unit_of_work([path], guard))
    print(f"{path.name}: {frames} frames, decoding {alone:.2f} s, unit of work {whole:.2f} s, {whole / alone:.2f} x")


def unit_of_work(paths: list[Path], guard: Guard) -> None:
    """All that a worker of `shard` does for these files, as one unit."""
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        for number, path in enumerate(paths):
            (files / f"{number:06d}{path.suffix}").symlink_to(path)
        config = PipelineConfig(data_root=scratch, out=f"{scratch}/out")
        config.corpora = {"files": CorpusConfig("folder", "files", license="none")}
        for unit in plan(config).units:
            process_unit(unit, config, guard, KEY, Path(scratch) / f"part{unit.number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--videos", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    all_paths = sorted(arguments.folder.resolve().rglob("*.jpg"))
    guarded = [str(path)[1:] for path in all_paths[1 :: arguments.every]]  # others than those that are measured
    guard = build_guard(read_guarded_images(Path("/"), "set", guarded, PipelineConfig()))
    print(f"{len(guarded)} guarded images")
    measure_images(all_paths[:: arguments.every], guard)
    for video in arguments.videos:
        measure_video(video.resolve(), guard)


if __name__ == "__main__":
    main()
