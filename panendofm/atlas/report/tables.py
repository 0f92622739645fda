"""The tables of a report, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping

from panendofm.atlas.datasets import mapping as datasets
from panendofm.atlas.datasets.catalog import count_table_one
from panendofm.atlas.panendox.published import published_panendox
from panendofm.atlas.panendox.reach import TaskReach
from panendofm.atlas.report.document import QualityCounts
from panendofm.reports import Table
from panendofm.reports.numbers import percent

# Datasets that would add classes, named in one cell.
_NAMED = 4


def catalog_table(mappings: Mapping[str, datasets.Mapping], images: Mapping[str, int] | None = None) -> Table:
    """Every dataset; with the number of its images on disk where that is given."""
    columns = ["dataset", "year", "Table 1", "country", "hospitals", "instruments", "images", "license", "access"]
    columns += ["shares images with", "checked on"]
    if images is not None:
        columns.insert(1, "on disk")
    rows: list[list[object]] = []
    for name, mapping in sorted(mappings.items()):
        about = mapping.about
        row: list[object] = [name]
        if images is not None:
            row.append(images.get(name, ""))
        if about is None:
            row += ["", "", "", "", "", "", mapping.license, ""]
        else:
            hospitals = [*about.hospitals, *([f"{about.unnamed_hospitals} not named"] * bool(about.unnamed_hospitals))]
            row += [
                about.year,
                about.table1 or "",
                ", ".join(about.countries),
                "; ".join(hospitals),
                ", ".join(about.instruments) + (f" ({about.devices})" if about.devices != "not stated" else ""),
                "not known" if about.images is None else about.images,
                mapping.license,
                about.access,
            ]
        row += [", ".join(mapping.overlaps), "" if about is None else about.checked]
        rows.append(row)
    return Table(columns, rows, numeric=False, fold_after=len(rows))


def contradictions_of_table_one(mappings: Mapping[str, datasets.Mapping]) -> list[str]:
    """Where the paper's abstract and its own Table 1 disagree."""
    counted = count_table_one(mapping.about for mapping in mappings.values() if mapping.about is not None)
    stated = published_panendox().stated
    pairs = [
        ("datasets", stated.datasets, counted.datasets),
        ("countries", stated.countries, counted.countries),
        ("hospitals", stated.hospitals, counted.hospitals),
    ]
    return [f"the abstract says {said} {what}, Table 1 lists {found} †" for what, said, found in pairs if said != found]


def reach_table(reached: list[TaskReach]) -> Table:
    columns = ["task", "in the paper", "here", "reachable", "with images", "evaluable", "what would add classes"]
    rows = [
        [one.title, one.in_paper, one.classes, one.reachable, one.with_images, one.evaluable, what_would_add(one)]
        for one in reached
    ]
    return Table(columns, rows, numeric=False, fold_after=len(rows))


def what_would_add(one: TaskReach) -> str:
    best = sorted(one.adds.items(), key=lambda item: (-len(item[1]), item[0]))
    parts = [f"{name} +{len(classes)}" for name, classes in best[:_NAMED]]
    if len(best) > _NAMED:
        parts.append(f"{len(best) - _NAMED} more datasets")
    if one.nowhere:
        parts.append(f"{len(one.nowhere)} in no mapping")
    return ", ".join(parts)


def quality_table(quality: Mapping[str, QualityCounts]) -> Table:
    reasons = sorted({reason for counts in quality.values() for reason in counts.reasons})
    rows = [
        [
            name,
            counts.images,
            counts.poor,
            percent(counts.poor / counts.images, 1),
            *(counts.reasons.get(reason, 0) for reason in reasons),
        ]
        for name, counts in quality.items()
    ]
    return Table(["dataset", "images", "poor", "share", *(reason.replace("_", " ") for reason in reasons)], rows)
