"""A split that the data bring along: followed as it is, and judged by which groups cross it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.config import SplitConfig
from panendofm.atlas.samples import Sample, group_numbers
from panendofm.atlas.split import SPLITS, TEST, TRAIN, VALIDATION, Split, split_report
from panendofm.runtime.errors import UserError

_NAMED = 10


def has_official_split(samples: Sequence[Sample]) -> bool:
    return bool(samples) and all(sample.official for sample in samples)


@dataclass(frozen=True)
class Crossing:
    """Groups with images in test and elsewhere: the score is given with and without their test images."""

    test: NDArray[np.bool_]  # [N]; test samples that have a twin outside
    groups: int
    named: list[list[str]]  # file names of the first few groups


def crossing_groups(samples: Sequence[Sample], sides: NDArray[np.int64], groups: NDArray[np.int64]) -> Crossing:
    outside = set(groups[sides != TEST].tolist())
    twin = np.array([s.on_both_sides for s in samples]) | np.isin(groups, list(outside))
    test = twin & (sides == TEST)
    members: dict[int, list[str]] = defaultdict(list)
    crossing = set(groups[test].tolist())
    for sample, number in zip(samples, groups.tolist(), strict=True):
        if number in crossing:
            members[number].append(Path(sample.path).name)
    return Crossing(test, len(crossing), [sorted(names) for names in list(members.values())[:_NAMED]])


def official_split(samples: Sequence[Sample], config: SplitConfig) -> tuple[Split, Crossing]:
    """The split as given. Without a validation part, whole groups are taken for it out of training."""
    sides = np.array([SPLITS.index(sample.official) for sample in samples], np.int64)
    groups = group_numbers(samples)
    for side in (TRAIN, TEST):
        if not (sides == side).any():
            raise UserError(f"the official split has no image for {SPLITS[side]}; correct its column 'split'.")
    # Judged before validation is taken out: that is ours, not the challenge's.
    crossing = crossing_groups(samples, sides, groups)
    taken_from_training = not (sides == VALIDATION).any()
    if taken_from_training:
        sides = _with_validation(samples, sides, groups, config)
    report = replace(
        split_report(samples, sides, groups, config),
        official=True,
        validation_taken_from_training=taken_from_training,
        crossing_groups=crossing.groups,
        crossing_test_images=int(crossing.test.sum()),
        crossing_named=crossing.named,
    )
    return Split(sides, groups, report), crossing


def _with_validation(
    samples: Sequence[Sample], sides: NDArray[np.int64], groups: NDArray[np.int64], config: SplitConfig
) -> NDArray[np.int64]:
    """Groups in an order that depends on the seed only, until every class has its share."""
    share = config.validation / (config.train + config.validation)
    members: dict[int, list[int]] = defaultdict(list)
    for i in np.flatnonzero(sides == TRAIN).tolist():
        members[int(groups[i])].append(i)
    total = Counter(c for inside in members.values() for i in inside for c in samples[i].classes)
    wanted = {name: max(1, ceil(share * count)) for name, count in total.items()}
    have: Counter[str] = Counter()
    result = sides.copy()

    def order(number: int) -> str:
        return hashlib.sha256(f"{config.seed} {min(samples[i].sha256 for i in members[number])}".encode()).hexdigest()

    for number in sorted(members, key=order):
        inside = Counter(c for i in members[number] for c in samples[i].classes)
        fits = all(have[c] + n <= wanted[c] and have[c] + n < total[c] for c, n in inside.items())
        if fits and any(have[c] < wanted[c] for c in inside):
            have.update(inside)
            result[members[number]] = VALIDATION
    return result
