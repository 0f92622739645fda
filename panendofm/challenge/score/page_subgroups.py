"""Subgroups on a page: a table, a chart of their differences, and images of where it does well and badly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panendofm.challenge.score.results import Scores
from panendofm.challenge.score.subsets import Subgroup, Subset
from panendofm.challenge.shown import shown
from panendofm.reports import PageImage, Table
from panendofm.reports.charts import ForestRow, forest_chart
from panendofm.reports.numbers import difference
from panendofm.scoring.statistics.estimates import Estimate

# What `image_score` is the mean of.
IMAGE_SCORES = {
    "classification": "right",
    "detection": "F1 of a frame's boxes",
    "segmentation": "Dice",
    "localization": "F1 of a frame's points",
}


def subgroup_parts(scores: Scores, thumbnails: Mapping[str, bytes]) -> dict[str, object]:
    rows = [
        ForestRow(_marked(s), d.value, d.low, d.high)
        for s in scores.subgroups
        if (d := s.image_score_difference).value is not None
    ]
    return {
        "subgroups": subgroup_table(scores) if scores.subgroups else None,
        "subgroup_chart": forest_chart(
            f"Difference to all images: {IMAGE_SCORES[scores.type]}", rows, reference=0.0, differences=True, digits=4
        ),
        "any_small": any(subgroup.small for subgroup in scores.subgroups),
        "does_well": [(subset_title(s), _gallery(s, thumbnails)) for s in scores.does_well],
        "does_badly": [(subset_title(s), _gallery(s, thumbnails)) for s in scores.does_badly],
    }


def subgroup_table(scores: Scores) -> Table:
    """Each metric with its interval, and beside it the difference to all images of the same classes."""
    names = list(dict.fromkeys(name for subgroup in scores.subgroups for name in subgroup.metrics))
    columns = ["subgroup", "images", f"{scores.group_kind}s", IMAGE_SCORES[scores.type], "difference"]
    rows = []
    for s in scores.subgroups:
        row = [_marked(s), str(s.images), str(s.groups), shown(s.image_score), signed(s.image_score_difference)]
        for name in names:
            row += [shown(s.metrics.get(name)), signed(s.differences.get(name))]
        rows.append(row)
    for name in names:
        columns += [name, "difference"]
    return Table(columns, rows)


def _marked(subgroup: Subgroup) -> str:
    return f"{subgroup.title} (small)" if subgroup.small else subgroup.title


def subset_title(subset: Subset) -> str:
    s = subset.subgroup
    certain = "" if s.differs else "; the interval does not leave out 0"
    small = ", a small group" if s.small else ""
    return (
        f"{s.title}: {shown(s.image_score)}, {signed(s.image_score_difference)} to all; "
        f"{s.images} images, {s.groups} groups{small}{certain}"
    )


def signed(found: Estimate | None) -> str:
    return "" if found is None or found.value is None else difference(found.value, found.low, found.high, 4)


def _gallery(subset: Subset, thumbnails: Mapping[str, bytes]) -> Sequence[PageImage]:
    found = []
    for case in subset.cases:
        content = thumbnails.get(case.image.rpartition("/")[2]) if case.image else None
        found.append(PageImage(content, f"{case.file}, frame {case.frame}: {case.caption}"))
    return found if thumbnails else []
