"""Which images train, choose and test. No patient, video, center or near-duplicate crosses, unless asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import TEST, TRAIN, VALIDATION, Sample, SplitConfig, group_numbers, make_split
from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.linear_probe.dense.data.images import DenseImage, read_dense_images, with_contents
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError

Rows = NDArray[np.int64]
_MIN_CENTERS = 2


@dataclass(frozen=True)
class Fold:
    """One training: which images (rows of all) train and choose, and the test sets by name."""

    name: str
    train: Rows
    validation: Rows
    tests: dict[str, Rows]


@dataclass(frozen=True)
class Plan:
    """All images, their groups, and the folds. `notes` must be read beside the metrics."""

    images: list[DenseImage]
    groups: Rows  # [N]
    folds: list[Fold]
    notes: list[str] = field(default_factory=list)
    leaks: dict[str, int] | None = None  # test images with a near-duplicate in training, of a split that leaks


def make_plan(config: DenseConfig) -> Plan:
    if not config.data:
        raise UserError("data is empty; name a folder of images with masks, such as data=[/data/Kvasir-SEG].")
    if config.split_by == "pranet":
        plan = _pranet(config)
    elif config.split_by == "leave-one-center-out":
        plan = _by_center(config)
    else:
        plan = _by_groups(config)
    for fold in plan.folds:
        for name, side in (("train", fold.train), ("validation", fold.validation), *fold.tests.items()):
            if not len(side):
                raise UserError(f"{fold.name}: no images are left for {name}; more data or other shares are needed.")
        sizes = ", ".join(f"{len(rows)} test ({name})" for name, rows in fold.tests.items())
        say(f"{fold.name}: {len(fold.train)} train, {len(fold.validation)} validation, {sizes}")
    for note in plan.notes:
        warn(note)
    return plan


def _read(sources: Sequence[str], config: DenseConfig) -> list[DenseImage]:
    return read_dense_images(sources, config.classes, config.unusable, config.split.near_duplicate_bits)


def _sample(image: DenseImage) -> Sample:
    finding = "with a finding" if image.has_finding else "without"
    return Sample(image.sha256, image.path, (image.dataset,), (), (finding,), image.links)


def _sides(images: Sequence[DenseImage], rows: Rows, config: SplitConfig) -> tuple[Rows, Rows, Rows]:
    """Train, validation and test among some rows, groups whole."""
    split = make_split([_sample(images[i]) for i in rows.tolist()], config)
    return rows[split.sides == TRAIN], rows[split.sides == VALIDATION], rows[split.sides == TEST]


def _two_sides(images: Sequence[DenseImage], rows: Rows, config: SplitConfig) -> tuple[Rows, Rows]:
    """Where the test is fixed: training and validation in their shares, groups whole."""
    share = config.validation / (config.train + config.validation)
    rest = 1e-9  # nothing is tested here; what falls there by rounding trains
    train, validation, test = _sides(images, rows, SplitConfig(1 - share - rest, share, rest, config.seed))
    return np.sort(np.concatenate([train, test])), validation


def _by_groups(config: DenseConfig) -> Plan:
    images = _read(config.data, config)
    own = len(images)
    datasets = sorted({p.dataset for p in images})
    notes = []
    if config.test:
        images = _read([*config.data, *config.test], config)
    groups = group_numbers([_sample(p) for p in images])
    inside = np.array([i for i, p in enumerate(images) if p.dataset in datasets], np.int64)
    assert len(inside) == own or config.test
    train, validation, test = _sides(images, inside, config.split)
    tests = {" + ".join(datasets): test}
    seen = set(groups[np.concatenate([train, validation])].tolist())
    for dataset in sorted({p.dataset for p in images} - set(datasets)):
        rows = np.array([i for i, p in enumerate(images) if p.dataset == dataset], np.int64)
        known = np.array([int(g) in seen for g in groups[rows]])
        if known.any():
            notes.append(
                f"{dataset}: {int(known.sum())} of {len(rows)} images are left out, being near-duplicates of "
                "training images."
            )
        tests[dataset] = rows[~known]
    return Plan(images, groups, [Fold(" + ".join(datasets), train, validation, tests)], notes)


def _by_center(config: DenseConfig) -> Plan:
    """Each center in turn is the test; images of other centers that are linked to it are left out of training."""
    images = _read(config.data, config)
    centers = sorted({p.center for p in images if p.center})
    if len(centers) < _MIN_CENTERS:
        raise UserError(
            f"{', '.join(config.data)}: the images tell of {len(centers)} centers; leave-one-center-out needs two or "
            "more, as PolypGen's folders data_C1 … data_C6 have."
        )
    groups = group_numbers([_sample(p) for p in images])
    folds, notes = [], []
    without = sum(p.center is None for p in images)
    if without:
        notes.append(f"{without} images name no center; they take no part.")
    for center in centers:
        test = np.array([i for i, p in enumerate(images) if p.center == center], np.int64)
        rest = np.array([i for i, p in enumerate(images) if p.center not in (center, None)], np.int64)
        there = set(groups[test].tolist())
        linked = np.array([int(g) in there for g in groups[rest]])
        if linked.any():
            notes.append(f"{int(linked.sum())} images are tied to center {center} and don't train its fold.")
        train, validation = _two_sides(images, rest[~linked], config.split)
        folds.append(Fold(f"without center {center}", train, validation, {f"center {center}": test}))
    return Plan(images, groups, folds, notes)


def _pranet(config: DenseConfig) -> Plan:
    """PraNet's re-pack: TrainDataset/{image,mask} and TestDataset/NAME/{images,masks}. It leaks, and we count it."""
    root = Path(config.data[0])
    folders = {name: root / name for name in ("TrainDataset", "TestDataset")}
    if len(config.data) != 1 or not all(folder.is_dir() for folder in folders.values()):
        raise UserError(f"{root}: split_by=pranet needs one folder with TrainDataset and TestDataset in it.")
    tested = {f.name: f for f in sorted(folders["TestDataset"].iterdir()) if f.is_dir()}
    named = {"train": folders["TrainDataset"]} | tested
    images: list[DenseImage] = []
    part: list[str] = []
    for name, folder in named.items():
        found = _read([str(folder)], config)
        images += found
        part += [name] * len(found)
    contents = with_contents(images, config.split.near_duplicate_bits)
    where = np.array(part)
    train, validation = _two_sides(contents, np.flatnonzero(where == "train"), config.split)
    tests = {name: np.flatnonzero(where == name) for name in named if name != "train"}
    groups = group_numbers([_sample(p) for p in contents])
    seen = set(groups[np.flatnonzero(where == "train")].tolist())
    leaks = Counter(name for name, rows in tests.items() for g in groups[rows].tolist() if g in seen)
    told = ", ".join(f"{name} {leaks[name]} of {len(rows)}" for name, rows in tests.items())
    note = (
        "PraNet's split parts frames of one sequence at random between training and test: metrics of sets that also "
        f"train are too high. Test images with a near-duplicate in training: {told}."
    )
    fold = Fold("PraNet's split (leaks)", train, validation, tests)
    return Plan(contents, groups, [fold], [note], dict(leaks))
