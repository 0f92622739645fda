"""The pictures that tasks are made of: every content once, whatever number of files and datasets hold it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.build import Row, content_groups
from panendofm.atlas.config import NEAR_DUPLICATE_BITS
from panendofm.atlas.layouts import Item, read_table_of_files
from panendofm.atlas.measurements import measure_all
from panendofm.atlas.taxonomy import Label
from panendofm.imaging.groups import linked_groups
from panendofm.imaging.images import is_image
from panendofm.runtime.console import track
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class Sample:
    """One content. `classes` are names that a split balances; `labels` is empty outside the atlas."""

    sha256: str
    path: str
    datasets: tuple[str, ...]
    labels: tuple[Label, ...]
    classes: tuple[str, ...]
    linked_by: tuple[str, ...]  # patients, videos and content; samples that share one belong together
    official: str = ""  # train, validation or test where the data have a split of their own
    on_both_sides: bool = False  # this very content stands in the official test part and in another


def samples_of(rows: Sequence[Row]) -> list[Sample]:
    """Rows of the atlas merged by content, in the order of their checksums; labels of equal files are joined."""
    by_content: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_content[row.sha256].append(row)
    samples = []
    for digest, same in sorted(by_content.items()):
        labels = tuple(sorted({label for row in same for label in row.labels}))
        links = {f"content {row.content}" for row in same}
        links |= {f"patient {row.patient}" for row in same if row.patient}
        links |= {f"video {row.video}" for row in same if row.video}
        classes = {label.finding for label in labels} | {
            f"{label.finding}/{label.grade}" for label in labels if label.grade
        }
        datasets = tuple(sorted({row.dataset for row in same}))
        path = min(row.path for row in same)
        samples.append(Sample(digest, path, datasets, labels, tuple(sorted(classes)), tuple(sorted(links))))
    return samples


def group_numbers(samples: Sequence[Sample]) -> NDArray[np.int64]:
    """A number for every sample; samples that share a link, directly or along a chain, share it."""
    return linked_groups([sample.linked_by for sample in samples])


def custom_samples(source: Path) -> list[Sample]:
    """Samples of a CSV (file,label[,patient,video,split]) or of a folder with a folder of pictures for each class."""
    items = read_table_of_files(source) if source.is_file() else _class_folders(source)
    name = source.stem if source.is_file() else source.name
    measured = []
    for item, result in zip(
        items, track(measure_all([i.path for i in items]), "pictures", len(items), "images"), strict=True
    ):
        if isinstance(result, UserError):
            raise result
        measured.append((item, result))
    contents = content_groups(
        [m.sha256 for _, m in measured], [m.perceptual_hash for _, m in measured], NEAR_DUPLICATE_BITS
    )
    merged: dict[str, list[tuple[Item, int]]] = defaultdict(list)
    for (item, result), content in zip(measured, contents.tolist(), strict=True):
        merged[result.sha256].append((item, content))
    samples = []
    for digest, same in sorted(merged.items()):
        classes = tuple(sorted({label for item, _ in same for label in item.labels}))
        links = {f"content {content}" for _, content in same}
        links |= {f"patient {item.patient}" for item, _ in same if item.patient}
        links |= {f"video {item.video}" for item, _ in same if item.video}
        path = min(str(item.path.resolve()) for item, _ in same)
        sides = {item.split for item, _ in same if item.split}
        official = next((side for side in ("test", "validation", "train") if side in sides), "")
        crossing = official == "test" and len(sides) > 1
        samples.append(Sample(digest, path, (name,), (), classes, tuple(sorted(links)), official, crossing))
    return samples


def _class_folders(folder: Path) -> list[Item]:
    if not folder.is_dir():
        raise UserError(f"cannot read {folder}: it does not exist; name an atlas (.parquet), a CSV or a folder.")
    items = [
        Item(path, (child.name,))
        for child in sorted(folder.iterdir())
        if child.is_dir()
        for path in sorted(child.rglob("*"))
        if is_image(path)
    ]
    if len({item.labels for item in items}) < 2:
        raise UserError(f"{folder}: a task needs at least two folders with pictures, one for each class.")
    return items
