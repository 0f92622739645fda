"""The images that tasks are made of: every content once, whatever number of files and datasets hold it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.build import Row
from panendofm.atlas.config import NEAR_DUPLICATE_BITS
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.labeled.images import LabeledImage, image_links, read_labeled_images
from panendofm.atlas.taxonomy import Label
from panendofm.imaging.groups import linked_groups
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
    traits: tuple[tuple[str, str], ...] = ()  # kind and name of the subgroups that it belongs to


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
        samples.append(
            Sample(
                sha256=digest,
                path=min(row.path for row in same),
                datasets=tuple(sorted({row.dataset for row in same})),
                labels=labels,
                classes=tuple(sorted(classes)),
                linked_by=tuple(sorted(links)),
                traits=tuple(sorted({trait for row in same for trait in _traits(row)})),
            )
        )
    return samples


# Kinds of subgroups, in the order of tables.
TRAITS = ("dataset", "center", "country", "instrument", "quality")
POOR = ("quality", "poor")


def _traits(row: Row) -> Iterator[tuple[str, str]]:
    mapping = load_mappings().get(row.dataset)
    about = None if mapping is None else mapping.about
    yield "dataset", row.dataset
    yield "quality", "poor" if row.quality.poor else "good"
    if row.center is not None:
        yield "center", f"{row.dataset} {row.center}"
    country = None if about is None else about.country_of(row.center)
    if country is not None:
        yield "country", country
    instrument = None if about is None else about.instrument_of(label.region for label in row.labels)
    if instrument is not None:
        yield "instrument", instrument


def group_numbers(samples: Sequence[Sample]) -> NDArray[np.int64]:
    """A number for every sample; samples that share a link, directly or along a chain, share it."""
    return linked_groups([sample.linked_by for sample in samples])


def custom_samples(source: Path, near_duplicate_bits: int = NEAR_DUPLICATE_BITS) -> list[Sample]:
    """Samples of a CSV (file,label[,patient,video,split]) or of a folder with a folder of images for each class."""
    images = read_labeled_images(source)
    if images.skipped:
        raise UserError(str(images.skipped[0].problem))
    links = image_links(images.records, near_duplicate_bits)
    name = source.stem if source.is_file() else source.name
    merged: dict[str, list[tuple[LabeledImage, tuple[str, ...]]]] = defaultdict(list)
    for image, own_links in zip(images.records, links, strict=True):
        merged[image.sha256].append((image, own_links))
    samples = []
    for digest, same in sorted(merged.items()):
        sides = {image.split for image, _ in same if image.split}
        official = next((side for side in ("test", "validation", "train") if side in sides), "")
        samples.append(
            Sample(
                sha256=digest,
                path=min(str((images.root / image.file).resolve()) for image, _ in same),
                datasets=(name,),
                labels=(),
                classes=tuple(sorted({label for image, _ in same for label in image.labels})),
                linked_by=tuple(sorted({link for _, own_links in same for link in own_links})),
                traits=(("dataset", name),),
                official=official,
                on_both_sides=official == "test" and len(sides) > 1,
            )
        )
    return samples
