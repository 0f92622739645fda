"""How well the leakage guard finds changed copies, how often it is wrong, and what it costs: real images are needed.

    python -m benchmarks.guard FOLDER [--every N]

FOLDER holds `kvasir8/`, which is guarded, and other images, which are not to be found (`hyperkvasir/` and
`hyperkvasir-unlabeled/`). Every N-th guarded image is changed in each way and asked for; with the index that guards of
very many images have, too.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from data_pipeline import PipelineConfig
from data_pipeline.screening.evaluation_sets import read_guarded_images, thumbnail_of_frame
from panendofm.imaging.images import open_image
from panendofm.imaging.leakage import build_guard, write_guard

Image = NDArray[np.uint8]


def encoded(image: Image, quality: int = 80) -> Image:
    content = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return np.asarray(cv2.imdecode(content, cv2.IMREAD_COLOR_RGB), np.uint8)


def cut(image: Image, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0) -> Image:
    height, width = image.shape[:2]
    rows = slice(round(top * height), height - round(bottom * height))
    return image[rows, round(left * width) : width - round(right * width)].copy()


def turned(image: Image, degrees: float) -> Image:
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    return np.asarray(cv2.warpAffine(image, matrix, (width, height)), np.uint8)


def brighter(image: Image, factor: float) -> Image:
    return np.clip(image.astype(np.float32) * factor, 0, 255).astype(np.uint8)


CHANGES: dict[str, Callable[[Image], Image]] = {
    "JPEG quality 50": lambda x: encoded(x, 50),
    "resized to 0.5×": lambda x: np.asarray(cv2.resize(x, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)),
    "brightness +15%": lambda x: brighter(x, 1.15),
    "brightness −15%": lambda x: brighter(x, 0.85),
    "mirrored": lambda x: x[:, ::-1].copy(),
    "upside down": lambda x: x[::-1].copy(),
    "half a turn": lambda x: x[::-1, ::-1].copy(),
    "quarter turn": lambda x: np.rot90(x).copy(),
    "three quarters of a turn": lambda x: np.rot90(x, 3).copy(),
    "mirrored, quarter turn": lambda x: np.rot90(x[:, ::-1]).copy(),
    "mirrored, three quarters": lambda x: np.rot90(x[:, ::-1], 3).copy(),
    "all sides cut by 5%": lambda x: cut(x, 0.05, 0.05, 0.05, 0.05),
    "all sides cut by 10%": lambda x: cut(x, 0.10, 0.10, 0.10, 0.10),
    "all sides cut by 20%": lambda x: cut(x, 0.20, 0.20, 0.20, 0.20),
    "all sides cut by 25%": lambda x: cut(x, 0.25, 0.25, 0.25, 0.25),
    "left 20% off": lambda x: cut(x, left=0.20),
    "left 30% off": lambda x: cut(x, left=0.30),
    "right 30% off": lambda x: cut(x, right=0.30),
    "top 30% off": lambda x: cut(x, top=0.30),
    "bottom 30% off": lambda x: cut(x, bottom=0.30),
    "a corner, 20% of two sides off": lambda x: cut(x, left=0.20, top=0.20),
    "turned by 10°": lambda x: turned(x, 10),
    "turned by −20°": lambda x: turned(x, -20),
    "turned by 30°": lambda x: turned(x, 30),
    "mirrored and all sides cut by 15%": lambda x: cut(x[:, ::-1], 0.15, 0.15, 0.15, 0.15),
    "cut by 5%, +15%, 0.5×, quality 60": lambda x: encoded(
        np.asarray(cv2.resize(brighter(cut(x, 0.05, 0.05, 0.05, 0.05), 1.15), None, fx=0.5, fy=0.5)), 60
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    config, folder = PipelineConfig(), arguments.folder / "kvasir8"
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))
    guarded = read_guarded_images(folder, folder.name, paths, config)
    guard = build_guard(guarded)
    scratch = tempfile.TemporaryDirectory()
    indexed = write_guard(guarded, Path(scratch.name) / "guard")
    print(f"{len(paths)} guarded images, {guard.descriptors.nbytes / len(paths) / 1e3:.0f} KB of vectors each")
    print("| change | recall | with an index |\n|---|---|---|")
    for name, change in CHANGES.items():
        chosen = paths[:: arguments.every]
        hits = [0, 0]
        for path in chosen:
            image = encoded(change(np.asarray(open_image(folder / path))))
            thumbnail = thumbnail_of_frame(image, config)
            for number, one in enumerate((guard, indexed)):
                match = one.match(thumbnail, config.leakage)
                hits[number] += match is not None and match.name == f"{folder.name}/{path}"
        print(f"| {name} | {hits[0] / len(chosen):.4f} | {hits[1] / len(chosen):.4f} |", flush=True)
    inside = {image.sha256 for image in guarded}
    others = [
        path
        for part in ("hyperkvasir", "hyperkvasir-unlabelled")
        for path in sorted((arguments.folder / part).rglob("*.jpg"))[:: arguments.every]
        if hashlib.sha256(path.read_bytes()).hexdigest() not in inside
    ]
    thumbnails = [thumbnail_of_frame(np.asarray(open_image(path)), config) for path in others]
    began = time.process_time()
    matches = [guard.match(thumbnail, config.leakage) for thumbnail in thumbnails]
    spent = time.process_time() - began
    count = sum(match is not None for match in matches)
    print(f"others: {count} of {len(others)} matched, {1000 * spent / len(others):.1f} ms a frame")
    for path, match in zip(others, matches, strict=True):
        if match is not None:
            print(f"  {path.name} ~ {match.name} ({match.correlation:.2f})")
    own = 0
    for number in range(0, len(guarded), arguments.every):
        rest = build_guard([image for i, image in enumerate(guarded) if i != number])
        own_thumbnail = guarded[number].thumbnail
        match = None if own_thumbnail is None else rest.match(own_thumbnail, config.leakage)
        own += match is not None
        if match is not None:
            print(f"  {paths[number]} ~ {match.name} ({match.correlation:.2f})")
    print(f"guarded images that match another one: {own}")
    scratch.cleanup()


if __name__ == "__main__":
    main()
