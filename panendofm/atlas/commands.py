"""What `panendofm atlas` does."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from panendofm.atlas.build import (
    Atlas,
    AtlasInfo,
    SharedImages,
    alike_conflicts,
    build_atlas,
    conflicts,
    overlaps,
    save_atlas,
)
from panendofm.atlas.config import AtlasConfig, SplitConfig
from panendofm.atlas.regions import read_regions, save_regions
from panendofm.atlas.samples import samples_of
from panendofm.atlas.split import SplitReport, make_split, save_split, split_path
from panendofm.records.documents import write_document
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError

LEVELS = ("region", "category", "finding", "grade")


@dataclass(frozen=True)
class Conflict:
    """Equal files that two datasets label differently."""

    a: str
    b: str
    contents: int


@dataclass(frozen=True)
class AtlasReport:
    """The JSON file beside an atlas."""

    info: AtlasInfo
    levels: dict[str, dict[str, int]]  # images of each label, by level
    overlaps: list[SharedImages]
    conflicts: list[Conflict]
    alike_groups_with_different_labels: int
    split: SplitReport


def run_atlas(arguments: argparse.Namespace, config: AtlasConfig) -> None:
    out = Path(config.out)
    extra = Path(config.mappings) if config.mappings else None
    if extra is not None and not extra.is_dir():
        raise UserError(f"mappings={extra}: there is no such folder.")
    atlas = build_atlas(arguments.roots, config.near_duplicate_bits, extra)
    save_atlas(atlas, out)
    samples = samples_of(atlas.rows)
    split = make_split(samples, SplitConfig(seed=config.seed))
    save_split(split, samples, split_path(out, out.parent))
    found = read_regions(atlas.rows)
    if found.of:
        number = save_regions(found, out.with_suffix(".regions.parquet"))
        say(f"{number} masks and boxes → {out.with_suffix('.regions.parquet')}")
    for problem, count in found.problems.items():
        warn(f"{problem} ({count})")
    report = _report(atlas, split.report)
    write_document(out.with_suffix(".json"), report)
    _say_report(report)
    say(f"{len(atlas.rows)} images ({len(samples)} different) → {out}; report: {out.with_suffix('.json')}")


def _report(atlas: Atlas, split: SplitReport) -> AtlasReport:
    levels: dict[str, Counter[str]] = {name: Counter() for name in LEVELS}
    for row in atlas.rows:
        for name, counter in levels.items():
            counter.update({getattr(label, name) for label in row.labels if getattr(label, name)})
    return AtlasReport(
        info=atlas.info,
        levels={name: dict(counter) for name, counter in levels.items()},
        overlaps=overlaps(atlas.rows),
        conflicts=[Conflict(a, b, count) for (a, b), count in conflicts(atlas.rows).items()],
        alike_groups_with_different_labels=alike_conflicts(atlas.rows),
        split=split,
    )


def _say_report(report: AtlasReport) -> None:
    rows = [[name, str(counts.images), str(counts.unlabeled)] for name, counts in report.info.datasets.items()]
    table("datasets", ["dataset", "images", "without label"], rows)
    say(f"absent: {', '.join(report.info.absent) or 'none'}")
    for name, counts in report.levels.items():
        table(f"{name} ({len(counts)})", [name, "images"], [[key, str(n)] for key, n in sorted(counts.items())])
    say(f"unmapped labels: {sum(len(labels) for labels in report.info.unmapped.values())}")
    for dataset, labels in report.info.unmapped.items():
        for label, count in sorted(labels.items()):
            warn(f"{dataset}: the label '{label}' ({count} images) is not mapped; its images are left out.")
    say(f"unreadable images: {len(report.info.unreadable)}")
    for pair in report.overlaps:
        say(f"{pair.a} and {pair.b} share {pair.identical_files} equal files, {pair.alike_groups} contents")
    say(f"conflicts (equal files, different labels): {sum(conflict.contents for conflict in report.conflicts)}")
    for conflict in report.conflicts:
        say(f"  {conflict.a} / {conflict.b}: {conflict.contents}")
    say(f"groups of alike images with different labels: {report.alike_groups_with_different_labels}")
    say(f"split: {report.split}")
    for name, why in report.split.unsatisfied.items():
        say(f"split, {name}: {why}")
