"""An atlas with all that lies beside it: split, masks and boxes, quality, report and page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.atlas.build import QUALITY_MEASURES, Atlas, save_atlas
from panendofm.atlas.config import TaskSet
from panendofm.atlas.datasets import mapping as datasets
from panendofm.atlas.datasets.regions import read_regions, save_regions
from panendofm.atlas.panendox.reach import reach
from panendofm.atlas.report.document import AtlasReport, make_report
from panendofm.atlas.report.page import atlas_page
from panendofm.atlas.report.tables import reach_table
from panendofm.atlas.samples import Sample
from panendofm.atlas.split import Split, save_split, split_path
from panendofm.records.documents import write_document
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text, exact
from panendofm.runtime.files import atomic_file, write_text


def write_atlas(
    atlas: Atlas,
    samples: list[Sample],
    split: Split,
    out: Path,
    mappings: Mapping[str, datasets.Mapping],
    tasks: TaskSet,
) -> AtlasReport:
    """`mappings` as they were used, extended by the user's tables of codes."""
    save_atlas(atlas, out)
    save_split(split, samples, split_path(out, out.parent))
    _write_quality(atlas, out)
    found = read_regions(atlas.rows)
    if found.of:
        number = save_regions(found, out.with_suffix(".regions.parquet"))
        say(f"{number} masks and boxes → {out.with_suffix('.regions.parquet')}")
    for problem, count in found.problems.items():
        warn(f"{problem} ({count})")
    report = make_report(atlas, split.report, reach(samples, split, mappings, tasks), mappings)
    write_document(out.with_suffix(".json"), report)
    write_text(out.with_suffix(".html"), atlas_page(report, atlas.rows, mappings))
    return report


def _write_quality(atlas: Atlas, out: Path) -> None:
    """atlas.quality.parquet and .csv: the verdict on every image, without its folder."""
    columns = {
        "sha256": [row.sha256 for row in atlas.rows],
        "dataset": [row.dataset for row in atlas.rows],
        "file": [row.file for row in atlas.rows],
        **{name: [getattr(row.quality, name) for row in atlas.rows] for name in QUALITY_MEASURES},
        "poor": [row.quality.poor for row in atlas.rows],
        "reasons": ["|".join(row.quality.reasons) for row in atlas.rows],
    }
    with atomic_file(out.with_suffix(".quality.parquet")) as stream:
        pq.write_table(pa.table(columns), stream)
    lines = [[_cell(value) for value in line] for line in zip(*columns.values(), strict=True)]
    write_text(out.with_suffix(".quality.csv"), csv_text(list(columns), lines))


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return exact(value) if isinstance(value, float) else value


def say_report(report: AtlasReport) -> None:
    rows = [[name, str(counts.images), str(counts.unlabeled)] for name, counts in report.info.datasets.items()]
    table("datasets", ["dataset", "images", "without label"], rows)
    say(f"absent: {', '.join(report.info.absent) or 'none'}")
    for name, counts in report.levels.items():
        table(f"{name} ({len(counts)})", [name, "images"], [[key, str(n)] for key, n in sorted(counts.items())])
    say(f"unmapped labels: {sum(len(labels) for labels in report.info.unmapped.values())}")
    for dataset, labels in report.info.unmapped.items():
        if dataset not in report.info.codes:
            for label, count in sorted(labels.items()):
                warn(f"{dataset}: the label '{label}' ({count} images) is not mapped; its images are left out.")
    for dataset, codes in report.info.codes.items():
        warn(
            f"{dataset}: {codes.codes} of {codes.of_codes} codes ({codes.images} images) have no meaning; explain them "
            f"in {codes.table}, of which 'panendofm atlas codes' writes a template."
        )
    say(f"unreadable images: {len(report.info.unreadable)}")
    for pair in report.overlaps:
        say(f"{pair.a} and {pair.b} share {pair.identical_files} equal files, {pair.alike_groups} contents")
    say(f"conflicts (equal files, different labels): {sum(conflict.contents for conflict in report.conflicts)}")
    for conflict in report.conflicts:
        say(f"  {conflict.a} / {conflict.b}: {conflict.contents}")
    say(f"groups of alike images with different labels: {report.alike_groups_with_different_labels}")
    poor = sum(counts.poor for counts in report.quality.values())
    say(f"images of poor quality: {poor} of {sum(counts.images for counts in report.quality.values())}")
    say(f"split: {report.split}")
    for name, why in report.split.unsatisfied.items():
        say(f"split, {name}: {why}")
    content = reach_table(report.reach)
    table("classes of the PanEndoX tasks", content.columns, [[str(cell) for cell in row] for row in content.rows])
