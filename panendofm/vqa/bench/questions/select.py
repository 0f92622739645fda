"""Which pictures of an entity become questions: representative ones, far apart, of different patients and videos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.features.k_center import covering_radius, k_center, outliers
from panendofm.vqa.bench.keys import generator, keyed
from panendofm.vqa.bench.questions.candidates import Candidate
from panendofm.vqa.bench.questions.quotas import water_filling

Features = Callable[[Sequence[Candidate]], NDArray[np.float32]]  # [N, D]


@dataclass
class Selection:
    chosen: list[Candidate] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


def select(
    candidates: Sequence[Candidate],
    features: Features,
    cap: Callable[[str], int],
    total: int | None,
    seed: int,
) -> Selection:
    """Quotas for the entities of each sub-task, then k-center within each entity."""
    by_entity: dict[str, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    # The order in which files were found must not matter.
    for candidate in sorted(candidates, key=lambda c: (keyed(seed, c.key), c.key)):
        by_entity[candidate.subtask][candidate.entity].append(candidate)
    result = Selection()
    for subtask in sorted(by_entity):
        entities = {name: _one_a_picture(by_entity[subtask][name]) for name in sorted(by_entity[subtask])}
        kept, cut = {}, {}
        vectors = {}
        for name, members in entities.items():
            rows = features(members)
            far = outliers(rows)
            cut[name] = sorted(m.picture.sha256[:16] for m, is_far in zip(members, far, strict=True) if is_far)
            kept[name] = [m for m, is_far in zip(members, far, strict=True) if not is_far]
            vectors[name] = rows[~far]
        quotas = water_filling({name: len(members) for name, members in kept.items()}, cap(subtask), total)
        report: dict[str, Any] = {}
        for name, members in kept.items():
            groups = np.unique([m.picture.group for m in members], return_inverse=True)[1]
            centres = k_center(vectors[name], quotas[name], groups)
            result.chosen += [members[i] for i in centres.indices]
            report[name] = {"pictures": len(entities[name]), "chosen": quotas[name], "outliers": cut[name]}
            if 0 < quotas[name] < len(members):
                drawn = generator(seed, "random draw", subtask, name).permutation(len(members))[: quotas[name]]
                report[name] |= {
                    "covering_radius": round(centres.radius, 6),
                    "covering_radius_of_a_random_draw": round(covering_radius(vectors[name], drawn), 6),
                }
        result.report[subtask] = report
    return result


def _one_a_picture(members: list[Candidate]) -> list[Candidate]:
    first: dict[str, Candidate] = {}
    for member in members:
        first.setdefault(member.picture.sha256, member)
    return list(first.values())
