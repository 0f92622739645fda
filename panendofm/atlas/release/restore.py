"""`atlas import`: the atlas of a release, from the datasets on this machine. What is missing or differs is named."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from panendofm.atlas.build import Atlas, AtlasInfo, DatasetCounts, Row, file_below
from panendofm.atlas.datasets.layouts import find_datasets, read_items
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.release.export import IMAGES, SPLIT
from panendofm.atlas.release.images_csv import read_images_csv
from panendofm.atlas.samples import Sample, samples_of
from panendofm.atlas.split import Split, load_split
from panendofm.runtime.console import say, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import sha256_of

_NAMED = 5


@dataclass(frozen=True)
class Restored:
    """`missing` and `differing` are files (dataset/name) of the release."""

    atlas: Atlas
    samples: list[Sample]
    split: Split
    images: int  # of the release
    missing: list[str]
    differing: list[str]
    unknown: Counter[str]  # files on disk that the release does not have, by dataset

    def say(self) -> None:
        for what, files in (("missing", self.missing), ("different from the release", self.differing)):
            if files:
                more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
                warn(f"{len(files)} images are {what}: {', '.join(files[:_NAMED])}{more}.")
            else:
                say(f"images that are {what}: 0")
        for dataset, count in sorted(self.unknown.items()):
            say(f"{dataset}: {count} images on disk are not in the release")


def restore_atlas(release: Path, roots: list[str], extra_mappings: Path | None = None) -> Restored:
    wanted = read_images_csv(release / IMAGES)
    mappings = load_mappings(extra_mappings)
    names = {row.dataset for row in wanted}
    info = AtlasInfo(absent=sorted(set(mappings) - names))
    places: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for found in find_datasets(roots, mappings):
        dataset = found.mapping.dataset
        if dataset not in names:
            continue
        counts = info.datasets.setdefault(dataset, DatasetCounts())
        counts.folders.append(str(found.source))
        items, unlabeled = read_items(found)
        counts.unlabeled += unlabeled
        for item in items:
            places[dataset, file_below(found.source, item.path)].append(item.path)
    rows: list[Row] = []
    missing: list[str] = []
    differing: list[str] = []
    checksums: dict[Path, str] = {}
    for row in track(wanted, "images", len(wanted), "images"):
        here = places.get((row.dataset, row.file), [])
        for path in here:
            if path not in checksums:
                checksums[path] = sha256_of(path)
        same = next((path for path in here if checksums[path] == row.sha256), None)
        if same is not None:
            rows.append(replace(row, path=str(same.resolve())))
            info.datasets[row.dataset].images += 1
        else:
            (differing if here else missing).append(f"{row.dataset}/{row.file}")
    if not rows:
        raise UserError(f"{', '.join(roots)}: not one image of {release} is there; check the folders.")
    known = {(row.dataset, row.file) for row in wanted}
    unknown = Counter(dataset for dataset, file in places if (dataset, file) not in known)
    samples = samples_of(rows)
    return Restored(
        atlas=Atlas(rows, info),
        samples=samples,
        split=load_split(release / SPLIT, samples),
        images=len(wanted),
        missing=missing,
        differing=differing,
        unknown=unknown,
    )
