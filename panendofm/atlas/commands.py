"""What `panendofm atlas` does."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from panendofm.atlas.build import Atlas, alike_conflicts, build_atlas, conflicts, overlaps, save_atlas
from panendofm.atlas.config import SplitConfig
from panendofm.atlas.regions import read_regions, save_regions
from panendofm.atlas.samples import samples_of
from panendofm.atlas.split import SPLITS, make_split, save_split, split_path
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_json


def run_atlas(arguments: argparse.Namespace, config: None) -> None:
    out = Path(arguments.out)
    if out.suffix != ".parquet":
        raise UserError(f"--out {out}: the atlas is a Parquet file; let its name end in .parquet.")
    extra = Path(arguments.mappings) if arguments.mappings else None
    if extra is not None and not extra.is_dir():
        raise UserError(f"--mappings {extra}: there is no such folder.")
    atlas = build_atlas(arguments.roots, arguments.near_duplicate_bits, extra)
    save_atlas(atlas, out)
    samples = samples_of(atlas.rows)
    split = make_split(samples, SplitConfig(seed=arguments.seed))
    save_split(split, samples, split_path(out, out.parent))
    found = read_regions(atlas.rows)
    if found.of:
        number = save_regions(found, out.with_suffix(".regions.parquet"))
        say(f"{number} masks and boxes → {out.with_suffix('.regions.parquet')}")
    for problem, count in found.problems.items():
        warn(f"{problem} ({count})")
    report = _report(atlas)
    write_json(out.with_suffix(".json"), {**report, "split": split.report})
    images = ", ".join(f"{split.report['images'][name]} {name}" for name in SPLITS)
    say(f"split: {images}; {split.report['groups']} groups, the largest of {split.report['largest_group']} images")
    for name, why in split.report["unsatisfied"].items():
        say(f"split, {name}: {why}")
    say(f"{len(atlas.rows)} images ({len(samples)} different) → {out}; report: {out.with_suffix('.json')}")


def _report(atlas: Atlas) -> dict[str, object]:
    """Say what is in the atlas, and return the same for the JSON file."""
    levels: dict[str, Counter[str]] = {name: Counter() for name in ("region", "category", "finding", "grade")}
    for row in atlas.rows:
        for name, counter in levels.items():
            counter.update({getattr(label, name) for label in row.labels if getattr(label, name)})
    read = atlas.info["datasets"]
    table(
        "datasets",
        ["dataset", "images", "without label"],
        [[name, str(entry["images"]), str(entry["unlabelled"])] for name, entry in read.items()],
    )
    say(f"absent: {', '.join(atlas.info['absent']) or 'none'}")
    for name, counter in levels.items():
        table(f"{name} ({len(counter)})", [name, "images"], [[key, str(n)] for key, n in sorted(counter.items())])
    unmapped = atlas.info["unmapped"]
    say(f"unmapped labels: {sum(len(labels) for labels in unmapped.values())}")
    for dataset, labels in unmapped.items():
        for label, count in sorted(labels.items()):
            warn(f"{dataset}: the label '{label}' ({count} images) is not mapped; its images are left out.")
    say(f"unreadable images: {len(atlas.info['unreadable'])}")
    shared, contradictions = overlaps(atlas.rows), conflicts(atlas.rows)
    for pair in shared:
        say(f"{pair['a']} and {pair['b']} share {pair['identical_files']} equal files, {pair['alike_groups']} contents")
    say(f"conflicts (equal files, different labels): {sum(contradictions.values())}")
    for (a, b), count in contradictions.items():
        say(f"  {a} / {b}: {count}")
    alike = alike_conflicts(atlas.rows)
    say(f"groups of alike pictures with different labels: {alike}")
    return {
        **atlas.info,
        "levels": {name: dict(counter) for name, counter in levels.items()},
        "overlaps": shared,
        "conflicts": [{"a": a, "b": b, "contents": count} for (a, b), count in contradictions.items()],
        "alike_groups_with_different_labels": alike,
    }
