"""python -m linear_probe: the atlas, the probe, and predictions."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from atlas import (
    NEAR_DUPLICATE_BITS,
    Atlas,
    alike_conflicts,
    build_atlas,
    conflicts,
    overlaps,
    read_regions,
    save_atlas,
    save_regions,
)
from linear_probe.dense.command import DENSE_COMMANDS
from linear_probe.export.tables import CLEANING_TITLE, cleaning_table, main_table
from linear_probe.export.write import write_results
from linear_probe.predict import predict
from linear_probe.run import ProbeConfig, run_benchmark, split_path
from linear_probe.samples import samples_of
from linear_probe.shortcut import shortcut
from linear_probe.split import SPLITS, SplitConfig, make_split, save_split
from linear_probe.timing import time_head
from linear_probe.video_report import ReportOptions, video_report
from records.probe import ProbeFolder
from runtime.command_line import Command, run_stage
from runtime.config import config_to_yaml
from runtime.console import log_to, say, table, warn
from runtime.errors import UserError
from runtime.files import make_directory, write_json, write_text
from runtime.locks import directory_lock
from runtime.names import without_folders


def _probe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", help="all, a task, or several parted by commas")
    parser.add_argument("--data", help="atlas.parquet, a CSV (file,label) or a folder of class folders")
    parser.add_argument("--protocol", choices=["published", "converged"])
    parser.add_argument("--out", help="folder for the results")


def _probe(arguments: argparse.Namespace, config: ProbeConfig) -> None:
    given = {name: value for name in ("task", "data", "protocol", "out") if (value := getattr(arguments, name))}
    config = replace(config, **given)
    if (named := config.named()) is not None:  # the stored configuration says both
        config = replace(config, block=named[0], pooling=named[1])
    out = make_directory(config.out)
    files = ProbeFolder(out)
    with directory_lock(out), log_to(files.log):
        write_text(files.config, without_folders(config_to_yaml(config)))
        benchmark = run_benchmark(arguments.weights, config)
        write_results(benchmark, out)
        head, rows, best = main_table(benchmark)
        marked = [
            [f"*{c}" if b else c for c, b in zip(row, bold, strict=True)] for row, bold in zip(rows, best, strict=True)
        ]
        table(f"macro-AUC (95% interval over groups), protocol {config.protocol}; * best", head, marked)
        head, rows = cleaning_table(benchmark)
        if rows:
            table(CLEANING_TITLE, head, rows)
        say(f"results: {files.page}, {files.table.name}, table.tex, summary.csv, classes.csv, {files.results.name}")


def _atlas_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="atlas.parquet", help="file to write (atlas.parquet)")
    parser.add_argument("--mappings", help="folder with mappings of further datasets (YAML)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split")
    parser.add_argument(
        "--near-duplicate-bits",
        type=int,
        default=NEAR_DUPLICATE_BITS,
        help=f"pictures whose hashes differ in at most so many of 256 bits are one content ({NEAR_DUPLICATE_BITS})",
    )


def _atlas(arguments: argparse.Namespace, config: None) -> None:
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


def _head_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", help="the network, when it is not where it was at training")
    parser.add_argument("--device", default="cpu")


def _predict_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    parser.add_argument("--out", default="predictions.csv", help="CSV to write (predictions.csv); - prints the lines")
    parser.add_argument("--root", help="folder that the files of a CSV are relative to")


def _root(arguments: argparse.Namespace) -> Path | None:
    return Path(arguments.root) if arguments.root else None


def _predict(a: argparse.Namespace, config: None) -> None:
    predict(Path(a.head), a.images, a.weights, Path(a.out), a.device, _root(a))


def _time_options(parser: argparse.ArgumentParser) -> None:
    _predict_options(parser)
    parser.add_argument("--repeats", type=int, default=3, help="passes over all pictures; the middle one counts (3)")


def _time(a: argparse.Namespace, config: None) -> None:
    time_head(Path(a.head), a.images, a.weights, Path(a.out), a.device, max(1, a.repeats), _root(a))


def _report_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    add, defaults = parser.add_argument, ReportOptions()
    add("--out", default="video_report", help="folder for report.json, report.txt and report.html (video_report)")
    add("--fps", type=float, default=defaults.fps, help="frames a second that are looked at (5)")
    add("--window-seconds", type=float, default=defaults.window_seconds, help="smoothing (1)")
    add("--minimum-confidence", type=float, default=defaults.minimum_confidence, help="below: uncertain (0.25)")
    add("--minimum-seconds", type=float, default=defaults.minimum_seconds, help="shorter segments join (1)")
    add("--truth", help="CSV start_seconds,end_seconds,label of true events, to compare with")


def _report_video(a: argparse.Namespace, config: None) -> None:
    options = ReportOptions(a.fps, a.window_seconds, a.minimum_confidence, a.minimum_seconds)
    truth = Path(a.truth) if a.truth else None
    video_report(Path(a.head), Path(a.video), a.weights, Path(a.out), options, a.device, truth)


def _shortcut_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    parser.add_argument("--out", default="shortcut.json", help="file to write (shortcut.json)")


def _shortcut(a: argparse.Namespace, config: None) -> None:
    shortcut(Path(a.head), Path(a.data), a.weights, Path(a.out), a.device)


COMMANDS = (
    *DENSE_COMMANDS,
    Command(
        "",
        "Linear probes of frozen networks on PanEndoX tasks; the verbs atlas and predict do the rest.",
        _probe,
        ("WEIGHTS…",),
        ProbeConfig,
        _probe_options,
    ),
    Command(
        "atlas", "Read the datasets on disk into one atlas, and split it.", _atlas, ("ROOTS…",), None, _atlas_options
    ),
    Command("predict", "Classify pictures with a trained head.", _predict, ("HEAD", "IMAGES…"), None, _predict_options),
    Command("time", "Time a head picture by picture.", _time, ("HEAD", "IMAGES…"), None, _time_options),
    Command("report", "Report what a video shows.", _report_video, ("HEAD", "VIDEO"), None, _report_options),
    Command(
        "shortcut", "Answers with and without the position box.", _shortcut, ("HEAD", "DATA"), None, _shortcut_options
    ),
)

if __name__ == "__main__":
    run_stage("linear_probe", COMMANDS)
