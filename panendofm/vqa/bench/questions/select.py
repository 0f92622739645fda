"""Which images of an entity become questions: representative ones, far apart, of different patients and videos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.features.k_center import covering_radius, k_center, outliers
from panendofm.vqa.bench.bench_folder import EntitySelection
from panendofm.vqa.bench.keys import generator, keyed
from panendofm.vqa.bench.questions.candidates import Candidate

Features = dict[str, NDArray[np.float32]]  # by the image's checksum


@dataclass
class Selection:
    chosen: list[Candidate] = field(default_factory=list)
    report: dict[str, dict[str, EntitySelection]] = field(default_factory=dict)  # by pool and entity


def select(
    candidates: Sequence[Candidate], features: Features, cap: Callable[[str], int], total: int | None, seed: int
) -> Selection:
    """Quotas for the entities of each pool, then k-center within each entity."""
    by_entity: dict[str, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    # The order in which files were found must not matter.
    for candidate in sorted(candidates, key=lambda c: (keyed(seed, c.key), c.key)):
        by_entity[candidate.pool][candidate.entity].append(candidate)
    result = Selection()
    for pool in sorted(by_entity):
        entities = {name: _Entity.of(by_entity[pool][name], features) for name in sorted(by_entity[pool])}
        quotas = water_filling({name: len(own.members) for name, own in entities.items()}, cap(pool), total)
        result.report[pool] = {}
        for name, own in entities.items():
            chosen, radius = own.choose(quotas[name])
            result.chosen += chosen
            report = EntitySelection(own.images, quotas[name], own.outliers)
            if 0 < quotas[name] < len(own.members):
                drawn = generator(seed, "random draw", pool, name).permutation(len(own.members))[: quotas[name]]
                report = replace(
                    report,
                    covering_radius=round(radius, 6),
                    covering_radius_of_a_random_draw=round(covering_radius(own.vectors, drawn), 6),
                )
            result.report[pool][name] = report
    return result


@dataclass(frozen=True)
class _Entity:
    """The candidates of one entity, one an image, without outliers."""

    images: int
    members: list[Candidate]
    vectors: NDArray[np.float32]
    outliers: list[str]

    @classmethod
    def of(cls, candidates: Sequence[Candidate], features: Features) -> _Entity:
        first: dict[str, Candidate] = {}
        for candidate in candidates:
            first.setdefault(candidate.image.sha256, candidate)
        members = list(first.values())
        vectors = np.stack([features[sha256] for sha256 in first])
        far = outliers(vectors)
        cut = sorted(sha256[:16] for sha256, is_far in zip(first, far, strict=True) if is_far)
        kept = [member for member, is_far in zip(members, far, strict=True) if not is_far]
        return cls(len(members), kept, vectors[~far], cut)

    def choose(self, count: int) -> tuple[list[Candidate], float]:
        """k-center over different groups first; and how far the farthest image is from a chosen one."""
        groups = np.unique([member.image.group for member in self.members], return_inverse=True)[1]
        centers = k_center(self.vectors, count, groups)
        return [self.members[i] for i in centers.indices], centers.radius


def water_filling(sizes: dict[str, int], cap: int | None = None, total: int | None = None) -> dict[str, int]:
    """Raise all shares together until the total is reached; what exists and `cap` bound each of them.

    What is left over by the last round goes to the first ones.
    """
    limits = {name: size if cap is None else min(size, cap) for name, size in sizes.items()}
    left = sum(limits.values()) if total is None else min(total, sum(limits.values()))
    shares = dict.fromkeys(sizes, 0)
    while left:
        rising = [name for name in sizes if shares[name] < limits[name]]
        step = min(max(1, left // len(rising)), min(limits[name] - shares[name] for name in rising))
        for name in rising:
            share = min(step, left)
            shares[name] += share
            left -= share
    return shares
