"""The metrics on parts of the test set: a device, a hospital, a sex, an age band, an organ, a size of the finding.

A part may lack classes, so it is compared with all images of the classes that it has. Replicates draw groups of the
whole test set, so that part and whole are paired. Intervals are not corrected for the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.config import ScoreConfig, SubgroupConfig
from panendofm.challenge.files.traits import TRAIT_COLUMNS, Trait, band_of
from panendofm.challenge.profile import Metrics
from panendofm.challenge.score.subsets import Case, Estimates, Subgroup, Subset
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.statistics.estimates import estimate
from panendofm.scoring.statistics.replicates import mean_replicates

NOT_STATED = "not stated"
CLASS = "class"
SIZE = "size"
SHARE = "size in the image"
NOTHING = "no finding"
# In the order of tables.
_KINDS = ("center", *TRAIT_COLUMNS, SIZE, SHARE, CLASS)
# Every image has one of these or leaves it open; of sizes and classes it may have several, or none.
_OF_EVERY_IMAGE = ("center", *TRAIT_COLUMNS)
_SUBSETS = 3  # of those that do best, and worst
_CASES = 4  # of each

Inside = NDArray[np.bool_]  # [N]
MetricsWhere = Callable[[Inside], tuple[Metrics, Metrics]]  # of the part, and of all images of its classes


@dataclass(frozen=True)
class Part:
    kind: str
    name: str
    inside: Inside


def image_traits(
    stated: Iterable[Trait], center: str, sizes_mm: Iterable[float | None], config: SubgroupConfig
) -> list[Trait]:
    """With ages and sizes as bands."""
    found = [("center", center)] if center else []
    for kind, name in stated:
        found.append((kind, band_of(float(name), config.age_limits) if kind == "age" else name))
    bands = {band_of(size, config.size_limits_mm, "mm") for size in sizes_mm if size is not None}
    return [*found, *((SIZE, band) for band in sorted(bands))]


def parts_of(traits: Sequence[Sequence[Trait]]) -> list[Part]:
    """All parts by kind; a kind that tells no images apart, or that nobody stated, is left out."""
    found = []
    for kind in _KINDS:
        names = [{name for own_kind, name in own if own_kind == kind} for own in traits]
        if not any(names):
            continue
        if kind in _OF_EVERY_IMAGE:
            names = [own or {NOT_STATED} for own in names]
        parts = [
            Part(kind, name, np.array([name in own for own in names]))
            for name in sorted(set().union(*names), key=_order)
        ]
        if len(parts) > 1 or not parts[0].inside.all():
            found += parts
    return found


def _order(name: str) -> tuple[float, str]:
    """Bands by their limits, what is not stated last, other names by the alphabet."""
    first = name.removeprefix("under ").split(" ")[0]
    if name == NOT_STATED:
        return np.inf, name
    number = float(first) if first.replace(".", "", 1).isdigit() else 0.0
    return number - 0.5 * name.startswith("under "), name


@dataclass(frozen=True)
class Parted:
    """What results.json says of the parts of a test set."""

    subgroups: list[Subgroup]
    does_well: list[Subset]
    does_badly: list[Subset]


def score_parts(
    traits: Sequence[Sequence[Trait]],
    metrics_where: MetricsWhere,
    image_scores: Floats,
    case: Callable[[int], Case],
    groups: NDArray[np.int64],
    weights: Floats,
    config: ScoreConfig,
    order: Floats | None = None,
) -> Parted:
    """image_scores [N] (how well each image was answered), weights [1 + R, N].

    order [N]: images from the worst answer to the best, where the scores alone leave ties.
    """
    parts = parts_of(traits)
    level = config.bootstrap.confidence
    found = _subgroups(parts, metrics_where, image_scores, groups, weights, level, config.subgroups.small)
    return Parted(found, *_best_and_worst(found, parts, image_scores if order is None else order, case))


def _subgroups(
    parts: Sequence[Part],
    metrics_where: MetricsWhere,
    image_scores: Floats,
    groups: NDArray[np.int64],
    weights: Floats,
    level: float,
    small: int,
) -> list[Subgroup]:
    found = []
    everywhere = mean_replicates(image_scores, weights)
    for part in parts:
        count = len(np.unique(groups[part.inside]))
        # Within one class there is nothing to tell apart: only the score of its images says something.
        inside, whole = metrics_where(part.inside) if part.kind != CLASS else ({}, {})
        own = mean_replicates(np.where(part.inside, image_scores, np.nan), weights)
        found.append(
            Subgroup(
                kind=part.kind,
                name=part.name,
                images=int(part.inside.sum()),
                groups=count,
                small=count < small,
                image_score=estimate(own, level, count),
                image_score_difference=estimate(own - everywhere, level, count),
                metrics=_estimates(inside, count, level),
                differences=_estimates({name: values - whole[name] for name, values in inside.items()}, count, level),
            )
        )
    return found


def _estimates(metrics: Metrics, groups: int, level: float) -> Estimates:
    return {name: estimate(values, level, groups) for name, values in metrics.items()}


def _best_and_worst(
    subgroups: Sequence[Subgroup], parts: Sequence[Part], order: Floats, case: Callable[[int], Case]
) -> tuple[list[Subset], list[Subset]]:
    """The subgroups answered best and worst, with cases of them; those whose interval leaves out 0 come first."""
    sides: tuple[list[Subset], list[Subset]] = ([], [])
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        found = [
            (not subgroup.differs, -sign * difference, number)
            for number, subgroup in enumerate(subgroups)
            if (difference := subgroup.image_score_difference.value) is not None and sign * difference > 0
        ]
        for _, _, number in sorted(found)[:_SUBSETS]:
            rows = np.flatnonzero(parts[number].inside)
            extreme = rows[np.argsort(-sign * order[rows], kind="stable")][:_CASES]
            side.append(Subset(subgroups[number], [case(int(i)) for i in extreme]))
    return sides
