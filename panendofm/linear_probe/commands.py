"""What the verbs of `panendofm probe` do."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from panendofm.linear_probe.config import ProbeConfig, ReportOptions
from panendofm.linear_probe.inference.predict import predict
from panendofm.linear_probe.inference.shortcut import shortcut
from panendofm.linear_probe.inference.timing import time_head
from panendofm.linear_probe.inference.video_report import video_report
from panendofm.linear_probe.results.tables import CLEANING_TITLE, cleaning_table, main_table
from panendofm.linear_probe.results.write import write_results
from panendofm.linear_probe.run import run_benchmark
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.config import config_to_yaml
from panendofm.runtime.console import log_to, say, table
from panendofm.runtime.files import make_directory, write_text
from panendofm.runtime.locks import directory_lock
from panendofm.runtime.names import without_folders


def run_probe(arguments: argparse.Namespace, config: ProbeConfig) -> None:
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


def _root(arguments: argparse.Namespace) -> Path | None:
    return Path(arguments.root) if arguments.root else None


def run_predict(a: argparse.Namespace, config: None) -> None:
    predict(Path(a.head), a.images, a.weights, Path(a.out), a.device, _root(a))


def run_time(a: argparse.Namespace, config: None) -> None:
    time_head(Path(a.head), a.images, a.weights, Path(a.out), a.device, max(1, a.repeats), _root(a))


def run_report_video(a: argparse.Namespace, config: None) -> None:
    options = ReportOptions(a.fps, a.window_seconds, a.minimum_confidence, a.minimum_seconds)
    truth = Path(a.truth) if a.truth else None
    video_report(Path(a.head), Path(a.video), a.weights, Path(a.out), options, a.device, truth)


def run_shortcut(a: argparse.Namespace, config: None) -> None:
    shortcut(Path(a.head), Path(a.data), a.weights, Path(a.out), a.device)
