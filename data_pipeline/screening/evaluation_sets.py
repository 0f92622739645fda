"""Reads the guarded evaluation sets, on Ray, once per run."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from data_pipeline.cluster import run_tasks
from data_pipeline.config import WORK, PipelineConfig
from data_pipeline.sources import FoundFile, find_files
from panendofm.imaging.frame_filters.layout import find_layout
from panendofm.imaging.images import UnreadableImageError, decode_image, is_image, open_image
from panendofm.imaging.leakage import (
    FEW_VECTORS,
    WINDOWS,
    Guard,
    GuardedImage,
    Thumbnail,
    build_guard,
    guarded_image,
    thumbnail_of,
    write_guard,
)
from panendofm.records.shards import GuardedSet, fingerprint
from panendofm.runtime.console import track, warn
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.names import printable

_IMAGES_PER_TASK = 200
# Of a set, when its readability is only to be checked.
_IMAGES_SAMPLED = 20


def read_guarded_sets(config: PipelineConfig, at_once: int) -> tuple[Guard, list[GuardedSet]]:
    """All guarded images, ready for comparison. A folder without images is an error: it would guard nothing.

    Very many of them are not held in memory: they go to files of the work folder, which the workers map.
    """
    files, sets = guarded_files(config), list[GuardedSet]()
    images = _read_sets(files, sets, config, at_once)
    if sum(map(len, files.values())) * len(WINDOWS) <= FEW_VECTORS:
        return build_guard(list(images)), sets
    folder = config.out_dir / WORK / "guard"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted
    return write_guard(images, folder), sets


def _read_sets(
    files: dict[Path, list[FoundFile]], sets: list[GuardedSet], config: PipelineConfig, at_once: int
) -> Iterator[GuardedImage]:
    """The images of all sets, one after another; adds to `sets` what was found."""
    for (folder, found), name in zip(files.items(), set_names(config), strict=True):
        contents, unreadable = list[tuple[str, str]](), list[str]()
        for image in _read_set(folder, name, [file.path for file in found], config, at_once):
            contents.append((image.sha256, image.name))
            if image.thumbnail is None:
                unreadable.append(image.name)
            yield image
        for unread in unreadable[:20]:
            warn(f"the guarded image {printable(unread)} can't be read, so copies of it would not be found.")
        _refuse_too_many_unreadable(name, len(unreadable), len(contents), config)
        sets.append(GuardedSet(name, len(contents), len(unreadable), fingerprint(contents)))


def guarded_files(config: PipelineConfig) -> dict[Path, list[FoundFile]]:
    """The images of every guarded folder. One without images is an error: it would guard nothing."""
    found: dict[Path, list[FoundFile]] = {}
    for folder in (Path(name).absolute() for name in config.leakage.guard):
        if not folder.is_dir():
            raise UserError(f"leakage.guard: the folder {folder} does not exist; check the path, or remove it.")
        found[folder] = [file for file in find_files(folder) if is_image(file.path)]
        if not found[folder]:
            raise UserError(f"leakage.guard: {folder} holds no images; check the path, or remove it.")
    return found


def check_guarded_sets(config: PipelineConfig) -> list[tuple[str, int]]:
    """(name, images) of every guarded set, before any work: its folder is there, and a sample of it can be read."""
    checked = []
    for name, (folder, files) in zip(set_names(config), guarded_files(config).items(), strict=True):
        sample = files[:: max(1, len(files) // _IMAGES_SAMPLED)]
        unreadable = sum(not _is_readable(folder / file.path) for file in sample)
        _refuse_too_many_unreadable(name, unreadable, len(sample), config)
        checked.append((name, len(files)))
    return checked


def _is_readable(path: Path) -> bool:
    try:
        open_image(path)
    except UnreadableImageError:
        return False
    return True


def _refuse_too_many_unreadable(name: str, unreadable: int, images: int, config: PipelineConfig) -> None:
    if unreadable > max(1, images) * config.leakage.max_unreadable_share:
        raise UserError(
            f"leakage.guard: {unreadable} of {images} images of {name} can't be read, so copies of them would enter "
            "the shards; restore them (pointers of Git LFS need git lfs pull), or allow it with "
            "leakage.max_unreadable_share."
        )


def set_names(config: PipelineConfig) -> list[str]:
    """A name for each guarded folder: its own, with as many of its parents as tell it from the others."""
    folders = list(dict.fromkeys(Path(name).absolute() for name in config.leakage.guard))
    names = []
    for folder in folders:
        length = 1
        while sum(other.parts[-length:] == folder.parts[-length:] for other in folders) > 1:
            length += 1
        names.append("/".join(folder.parts[-length:]))
    return names


def _read_set(
    folder: Path, name: str, paths: list[str], config: PipelineConfig, at_once: int
) -> Iterator[GuardedImage]:
    slices = [paths[i : i + _IMAGES_PER_TASK] for i in range(0, len(paths), _IMAGES_PER_TASK)]
    tasks = [(folder, name, part, config) for part in slices]
    results = track(
        run_tasks(read_guarded_images, tasks, at_once, config.ray.retries), f"guard {name}", len(tasks), "slices"
    )
    early: dict[int, list[GuardedImage]] = {}  # slices that ended before those in front of them
    due = 0
    for number, images in results:
        early[number] = images
        while due in early:
            yield from early.pop(due)
            due += 1


def read_guarded_images(folder: Path, name: str, paths: list[str], config: PipelineConfig) -> list[GuardedImage]:
    """Some images of the set called `name`; runs as a Ray task."""
    cv2.setNumThreads(1)
    return [_read_guarded_image(folder / path, f"{name}/{path}", config) for path in paths]


def _read_guarded_image(path: Path, name: str, config: PipelineConfig) -> GuardedImage:
    with naming_path("read the guarded image", path):
        content = path.read_bytes()
    try:
        thumbnail = thumbnail_of_frame(decode_image(content, name), config)
    except UnreadableImageError:
        thumbnail = None  # counted and said by the caller
    return guarded_image(name, hashlib.sha256(content).hexdigest(), thumbnail)


def thumbnail_of_frame(rgb: np.ndarray[tuple[int, int, int], np.dtype[np.uint8]], config: PipelineConfig) -> Thumbnail:
    """The thumbnail of a whole frame, cropped to its own field of view; a frame without one is taken as it is."""
    layout = find_layout([rgb], config.screen.field_of_view, config.shards.longest_side_px, True)
    if layout is None:
        return thumbnail_of(rgb, np.full(rgb.shape[:2], 255, np.uint8))
    return thumbnail_of(layout.blank(layout.crop(rgb)), layout.visible)
