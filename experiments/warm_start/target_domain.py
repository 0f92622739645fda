"""The second domain: the synthetic endoscopy of `data_pipeline synthesize`, in the eight classes of Kvasir."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from experiments.warm_start.shards import write_shard
from panendofm.runtime.files import atomic_directory
from panendofm.synthetic.labeled import FOLDER, make_labeled, plan_labeled

SIDE_PX = 96


def write_labeled(folder: Path, per_class: int, seed: int) -> Path:
    """A folder of images for each class, as eval_knn reads it."""
    if not folder.exists():
        with atomic_directory(folder) as made:
            _draw(made, per_class, seed)
            for label in (made / FOLDER).iterdir():
                label.rename(made / label.name)
            (made / FOLDER).rmdir()
    return folder


def write_shards(folder: Path, per_class: int, seed: int) -> Path:
    """One shard of other scenes than the labeled ones, without labels. Frames of one scene count as a video."""
    if not folder.exists():
        with atomic_directory(folder) as made:
            frames = _draw(made, per_class, seed)
            images = [(f"s{scene:04d}f{number}", f"scene{scene}", path.read_bytes()) for scene, number, path in frames]
            for _, _, path in frames:
                path.unlink()
            for label in (made / FOLDER).iterdir():
                label.rmdir()
            (made / FOLDER).rmdir()
            write_shard(made, "synthetic-endoscopy", images)
    return folder


def _draw(folder: Path, per_class: int, seed: int) -> list[tuple[int, int, Path]]:
    """Whole scenes of every class until it has its images: (scene, number within it, file)."""
    drawn: dict[str, int] = {}
    files = []
    for scene, plan in enumerate(plan_labeled("medium", seed)):
        if drawn.get(plan.label, 0) >= per_class:
            continue
        drawn[plan.label] = drawn.get(plan.label, 0) + len(plan.paths)
        make_labeled(folder, plan, seed)
        for path in plan.paths:
            _shrink(folder / path)
        files += [(scene, number, folder / path) for number, path in enumerate(plan.paths)]
    return files


def _shrink(path: Path) -> None:
    """To the size that is used: decoding large images would be most of the work."""
    image = np.asarray(cv2.imread(str(path)))
    height, width = image.shape[:2]
    size = (round(width * SIDE_PX / height), SIDE_PX)
    cv2.imwrite(str(path), cv2.resize(image, size, interpolation=cv2.INTER_AREA), [cv2.IMWRITE_JPEG_QUALITY, 92])
