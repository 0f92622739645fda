"""Reads the guarded evaluation sets, on Ray, once per run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from data_pipeline.cluster import run_tasks
from data_pipeline.config import PipelineConfig
from data_pipeline.leakage import Guard, Thumbnail, build_guard, thumbnail_of
from data_pipeline.leakage.guard import GuardedImage, guarded_image, set_fingerprint
from data_pipeline.screen.layout import find_layout
from data_pipeline.sources import IMAGE_SUFFIXES, find_files
from runtime.console import track, warn
from runtime.errors import UserError

_IMAGES_PER_TASK = 200


@dataclass(frozen=True)
class GuardedSet:
    """One evaluation set as the certificate names it."""

    name: str
    images: int
    unreadable: int
    fingerprint: str


def read_guarded_sets(config: PipelineConfig, at_once: int) -> tuple[Guard, list[GuardedSet]]:
    """All guarded images, ready for comparison. A folder without images is an error: it would guard nothing."""
    images: list[GuardedImage] = []
    sets: list[GuardedSet] = []
    for folder in (Path(name) for name in config.leakage.guard):
        if not folder.is_dir():
            raise UserError(f"leakage.guard: the folder {folder} does not exist; check the path, or remove it.")
        paths = [file.path for file in find_files(folder) if Path(file.path).suffix.lower() in IMAGE_SUFFIXES]
        if not paths:
            raise UserError(f"leakage.guard: {folder} holds no images; check the path, or remove it.")
        found = list(_read_set(folder, paths, config, at_once))
        unreadable = [image.name for image in found if image.thumbnail is None]
        for name in unreadable:
            warn(f"the guarded image {name} can't be read, so copies of it would not be found.")
        sets.append(GuardedSet(folder.name, len(found), len(unreadable), set_fingerprint(found)))
        images += found
    return build_guard(images), sets


def _read_set(folder: Path, paths: list[str], config: PipelineConfig, at_once: int) -> Iterator[GuardedImage]:
    slices = [paths[i : i + _IMAGES_PER_TASK] for i in range(0, len(paths), _IMAGES_PER_TASK)]
    tasks = [(folder, part, config) for part in slices]
    results = track(
        run_tasks(read_guarded_images, tasks, at_once, config.ray.retries), f"guard {folder.name}", len(tasks), "slices"
    )
    by_slice = dict(results)
    for number in range(len(slices)):
        yield from by_slice[number]


def read_guarded_images(folder: Path, paths: list[str], config: PipelineConfig) -> list[GuardedImage]:
    """Some images of a set; runs as a Ray task."""
    cv2.setNumThreads(1)
    return [read_guarded_image(folder, path, config) for path in paths]


def read_guarded_image(folder: Path, path: str, config: PipelineConfig) -> GuardedImage:
    content = (folder / path).read_bytes()
    name, digest = f"{folder.name}/{path}", hashlib.sha256(content).hexdigest()
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB) if content else None
    if picture is None:
        return guarded_image(name, digest, None)
    return guarded_image(name, digest, thumbnail_of_frame(np.asarray(picture, np.uint8), config))


def thumbnail_of_frame(rgb: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]], config: PipelineConfig) -> Thumbnail:
    """The thumbnail of a whole frame, cropped to its own field of view; a frame without one is taken as it is."""
    layout = find_layout([rgb], config.screen.field_of_view, config.shards.longest_side_px, True)
    if layout is None:
        return thumbnail_of(rgb, np.full(rgb.shape[:2], 255, np.uint8))
    return thumbnail_of(layout.blank(layout.crop(rgb)), layout.visible)
