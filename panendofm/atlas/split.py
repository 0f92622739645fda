"""Train, validation and test: groups stay whole, classes are balanced as far as groups allow.

A group is all that is tied together by patient, video or content. The result depends on the images, the seed and the
shares only, not on the order in which anything was read.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from panendofm.atlas.config import SplitConfig
from panendofm.atlas.samples import Sample, group_numbers
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import atomic_file, safe_name, sha256_of
from panendofm.runtime.parquet_files import read_parquet

SPLITS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
# A class whose share of a split is off by more than this is reported.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class ClassSplit:
    """Groups of a class, and its images on each side."""

    groups: int
    train: int
    validation: int
    test: int

    def images(self) -> tuple[int, int, int]:
        return self.train, self.validation, self.test


@dataclass(frozen=True)
class SplitReport:
    """What is in a split, and what could not be satisfied."""

    shares: dict[str, float]
    seed: int
    images: dict[str, int]
    groups: int
    largest_group: int
    classes: dict[str, ClassSplit]
    unsatisfied: dict[str, str]  # class, and why
    # Of a split that the data bring along.
    official: bool = False
    validation_taken_from_training: bool = False
    crossing_groups: int = 0
    crossing_test_images: int = 0
    crossing_named: list[list[str]] = field(default_factory=list)
    sha256: str = ""  # of the table beside it

    def __str__(self) -> str:
        images = ", ".join(f"{self.images[name]} {name}" for name in SPLITS)
        return f"{images}; {self.groups} groups, the largest of {self.largest_group} images"


@dataclass(frozen=True)
class Split:
    """Where every sample is, and which group it belongs to."""

    sides: NDArray[np.int64]  # [N], index into SPLITS
    groups: NDArray[np.int64]  # [N]
    report: SplitReport


@dataclass(frozen=True)
class _Group:
    """The samples of a group, counted by class and by dataset and class."""

    number: int
    size: int
    classes: Counter[str]
    strata: Counter[str]
    tie_break: str


def make_split(samples: Sequence[Sample], config: SplitConfig) -> Split:
    numbers = group_numbers(samples)
    groups = _collect(samples, numbers, config.seed)
    side_of = _assign(groups, config.shares)
    sides = np.array([side_of[number] for number in numbers.tolist()], np.int64)
    return Split(sides, numbers, split_report(samples, sides, numbers, config))


def _collect(samples: Sequence[Sample], numbers: NDArray[np.int64], seed: int) -> list[_Group]:
    members: dict[int, list[Sample]] = defaultdict(list)
    for sample, number in zip(samples, numbers.tolist(), strict=True):
        members[number].append(sample)
    groups = []
    for number, inside in members.items():
        strata = Counter(f"{d}|{c}" for s in inside for d in s.datasets for c in s.classes)
        strata.update(c for s in inside for c in s.classes)  # over all datasets too
        strata["*"] = len(inside)  # and the plain number of images
        key = f"{seed} {min(s.sha256 for s in inside)}"
        tie_break = hashlib.sha256(key.encode()).hexdigest()
        groups.append(_Group(number, len(inside), Counter(c for s in inside for c in s.classes), strata, tie_break))
    return groups


def _assign(groups: list[_Group], shares: tuple[float, float, float]) -> dict[int, int]:
    total: Counter[str] = Counter()
    for group in groups:
        total.update(group.strata)
    have: list[Counter[str]] = [Counter() for _ in SPLITS]
    side_of: dict[int, int] = {}

    def put(group: _Group, side: int) -> None:
        side_of[group.number] = side
        have[side].update(group.strata)

    for group, side in _coverage(groups):
        put(group, side)
    for group in sorted(groups, key=lambda g: (-g.size, g.tie_break)):
        if group.number not in side_of:
            # The squared miss of every stratum falls most where most is lacking.
            gains = [
                sum(n * (shares[side] * total[k] - have[side][k]) / total[k] ** 2 for k, n in group.strata.items())
                for side in range(len(SPLITS))
            ]
            put(group, int(np.argmax(gains)))
    return side_of


def _coverage(groups: list[_Group]) -> list[tuple[_Group, int]]:
    """Groups set aside so that every class with three groups or more is on all sides, rarest class first.

    A class with two groups is trained and tested; one with a single group is trained only. Where there is a choice, the
    group with the fewest images of the class leaves the training side.
    """
    holders: dict[str, list[_Group]] = defaultdict(list)
    for group in groups:
        for name in group.classes:
            holders[name].append(group)
    chosen = {inside[0].number: (inside[0], TRAIN) for inside in holders.values() if len(inside) == 1}
    for name in sorted(holders, key=lambda c: (len(holders[c]), c)):
        inside = holders[name]
        needed = [TEST, VALIDATION] if len(inside) >= 3 else [TEST] if len(inside) == 2 else []
        for side in needed:
            taken = {chosen[g.number][1] for g in inside if g.number in chosen}
            free = [g for g in inside if g.number not in chosen]
            # One holder must be left for training.
            if side not in taken and free and (len(free) > 1 or TRAIN in taken):
                group = min(free, key=lambda g: (g.classes[name], g.size, g.tie_break))
                chosen[group.number] = (group, side)
        taken = {chosen[g.number][1] for g in inside if g.number in chosen}
        free = [g for g in inside if g.number not in chosen]
        if len(free) == 1 and TRAIN not in taken:
            chosen[free[0].number] = (free[0], TRAIN)
    return list(chosen.values())


def split_report(
    samples: Sequence[Sample], sides: NDArray[np.int64], numbers: NDArray[np.int64], config: SplitConfig
) -> SplitReport:
    """Counts of every class on every side, and what could not be satisfied."""
    images: dict[str, Counter[int]] = defaultdict(Counter)
    groups: dict[str, set[int]] = defaultdict(set)
    for sample, side, number in zip(samples, sides.tolist(), numbers.tolist(), strict=True):
        for name in sample.classes:
            images[name][side] += 1
            groups[name].add(number)
    classes = {
        name: ClassSplit(len(groups[name]), *(images[name][side] for side in range(len(SPLITS))))
        for name in sorted(images)
    }
    sizes = np.bincount(numbers)
    return SplitReport(
        shares=dict(zip(SPLITS, config.shares, strict=True)),
        seed=config.seed,
        images={name: int((sides == i).sum()) for i, name in enumerate(SPLITS)},
        groups=len(sizes),
        largest_group=int(sizes.max()),
        classes=classes,
        unsatisfied={name: why for name, entry in classes.items() if (why := _unsatisfied(entry, config))},
    )


def _unsatisfied(entry: ClassSplit, config: SplitConfig) -> str:
    missing = [name for name, count in zip(SPLITS, entry.images(), strict=True) if not count]
    many = f"{entry.groups} group{'s' if entry.groups != 1 else ''}"
    if missing:
        return f"not evaluable: {many}, none left for {' and '.join(missing)}"
    total = sum(entry.images())
    off = [
        f"{name} {count / total:.0%} instead of {share:.0%}"
        for name, count, share in zip(SPLITS, entry.images(), config.shares, strict=True)
        # With few images a share can't be met any closer than to one image.
        if abs(count / total - share) > max(_TOLERANCE, 1 / total)
    ]
    return f"{many}: {', '.join(off)}" if off else ""


def save_split(split: Split, samples: Sequence[Sample], path: Path) -> None:
    """PATH (Parquet: sha256, group, split) and PATH with .json instead: the report and the checksum of the first."""
    table = pa.table(
        {
            "sha256": [s.sha256 for s in samples],
            "group": split.groups.tolist(),
            "split": [SPLITS[i] for i in split.sides.tolist()],
        }
    )
    with atomic_file(path) as stream:
        pq.write_table(table, stream)
    write_document(path.with_suffix(".json"), replace(split.report, sha256=sha256_of(path)))


def load_split(path: Path, samples: Sequence[Sample]) -> Split:
    """A stored split, in the order of the samples. It must be unchanged and know every sample."""
    report = read_document(SplitReport, path.with_suffix(".json"), "the report of a split")
    with naming_path("read the split", path):
        digest = sha256_of(path)
    if digest != report.sha256:
        raise UserError(
            f"{path}: its checksum is not the one in {path.with_suffix('.json')}; remove both to split anew."
        )
    table = read_parquet(path, "remove it to split anew", ("sha256", "group", "split")).to_pydict()
    rows = {
        sha: (group, SPLITS.index(side))
        for sha, group, side in zip(table["sha256"], table["group"], table["split"], strict=True)
    }
    unknown = [s.path for s in samples if s.sha256 not in rows]
    if unknown:
        raise UserError(
            f"{path}: {len(unknown)} images are not in this split, the first is {unknown[0]}; "
            "the data has changed since, remove the split to make a new one."
        )
    stored = [rows[s.sha256] for s in samples]
    return Split(np.array([f[1] for f in stored], np.int64), np.array([f[0] for f in stored], np.int64), report)


def load_or_make_split(samples: Sequence[Sample], path: Path, config: SplitConfig) -> Split:
    """The stored split, which must be of these shares and this seed; made and stored when there is none."""
    if not path.exists():
        split = make_split(samples, config)
        save_split(split, samples, path)
        return split
    split = load_split(path, samples)
    shares = tuple(split.report.shares[name] for name in SPLITS)
    if (split.report.seed, shares) != (config.seed, config.shares):
        raise UserError(
            f"{path} was made with the seed {split.report.seed} and the shares {shares}; set split.seed and the shares "
            "to these, or remove it to split anew."
        )
    return split


def split_path(source: Path, out: Path) -> Path:
    """Beside an atlas, so that all runs on it share one split; in the results for data that isn't ours to add to."""
    folder = source.parent if source.suffix == ".parquet" else out
    return folder / f"{safe_name(source.stem)}.split.parquet"
