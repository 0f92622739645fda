"""What an atlas holds: the JSON file beside it, of which tables and the page are made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from panendofm.atlas.build import Atlas, AtlasInfo, Row, SharedImages, alike_conflicts, conflicts, overlaps
from panendofm.atlas.datasets import mapping as datasets
from panendofm.atlas.datasets.catalog import images_by_country
from panendofm.atlas.panendox.reach import TaskReach
from panendofm.atlas.split import SplitReport

LEVELS = ("region", "category", "finding", "grade")


@dataclass(frozen=True)
class Conflict:
    """Equal files that two datasets label differently."""

    a: str
    b: str
    contents: int


@dataclass(frozen=True)
class QualityCounts:
    """How many images of a dataset are poor, and for which reasons; an image may have several."""

    images: int
    poor: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class AtlasReport:
    info: AtlasInfo
    levels: dict[str, dict[str, int]]  # images of each label, by level
    labels: dict[str, int]  # images of each label with all its levels
    overlaps: list[SharedImages]
    conflicts: list[Conflict]
    alike_groups_with_different_labels: int
    countries: dict[str, int]  # images
    quality: dict[str, QualityCounts]  # by dataset
    reach: list[TaskReach]
    split: SplitReport


def make_report(
    atlas: Atlas, split: SplitReport, reached: list[TaskReach], mappings: Mapping[str, datasets.Mapping]
) -> AtlasReport:
    rows = atlas.rows
    levels: dict[str, Counter[str]] = {name: Counter() for name in LEVELS}
    labels: Counter[str] = Counter()
    for row in rows:
        labels.update({str(label) for label in row.labels})
        for name, counter in levels.items():
            counter.update({getattr(label, name) for label in row.labels if getattr(label, name)})
    abouts = {name: mapping.about for name, mapping in mappings.items()}
    return AtlasReport(
        info=atlas.info,
        levels={name: dict(counter) for name, counter in levels.items()},
        labels=dict(labels),
        overlaps=overlaps(rows),
        conflicts=[Conflict(a, b, count) for (a, b), count in conflicts(rows).items()],
        alike_groups_with_different_labels=alike_conflicts(rows),
        countries=images_by_country((abouts.get(row.dataset), row.center) for row in rows),
        quality=count_quality(rows),
        reach=reached,
        split=split,
    )


def count_quality(rows: Sequence[Row]) -> dict[str, QualityCounts]:
    by_dataset: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_dataset[row.dataset].append(row)
    return {
        name: QualityCounts(
            len(inside),
            sum(row.quality.poor for row in inside),
            dict(Counter(reason for row in inside for reason in row.quality.reasons).most_common()),
        )
        for name, inside in sorted(by_dataset.items())
    }
