"""panendofm probe: linear probes on PanEndoX, and what trained heads answer."""

from __future__ import annotations

import argparse

from panendofm.linear_probe.config import ProbeConfig, ReportOptions
from panendofm.runtime.command_line import Command, Stage, run_stage


def _probe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", help="all, a task, or several parted by commas")
    parser.add_argument("--data", help="atlas.parquet, a CSV (file,label) or a folder of class folders")
    parser.add_argument("--protocol", choices=["published", "converged"])
    parser.add_argument("--out", help="folder for the results")


def _head_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", help="the network, when it is not where it was at training")
    parser.add_argument("--device", default="cpu")


def _predict_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    parser.add_argument("--out", default="predictions.csv", help="CSV to write (predictions.csv); - prints the lines")
    parser.add_argument("--root", help="folder that the files of a CSV are relative to")


def _time_options(parser: argparse.ArgumentParser) -> None:
    _predict_options(parser)
    parser.add_argument("--repeats", type=int, default=3, help="passes over all pictures; the middle one counts (3)")


def _report_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    add, defaults = parser.add_argument, ReportOptions()
    add("--out", default="video_report", help="folder for report.json, report.txt and report.html (video_report)")
    add("--fps", type=float, default=defaults.fps, help="frames a second that are looked at (5)")
    add("--window-seconds", type=float, default=defaults.window_seconds, help="smoothing (1)")
    add("--minimum-confidence", type=float, default=defaults.minimum_confidence, help="below: uncertain (0.25)")
    add("--minimum-seconds", type=float, default=defaults.minimum_seconds, help="shorter segments join (1)")
    add("--truth", help="CSV start_seconds,end_seconds,label of true events, to compare with")


def _shortcut_options(parser: argparse.ArgumentParser) -> None:
    _head_options(parser)
    parser.add_argument("--out", default="shortcut.json", help="file to write (shortcut.json)")


COMMANDS = (
    Command(
        "",
        "Linear probes of frozen networks on PanEndoX tasks.",
        "panendofm.linear_probe.commands:run_probe",
        ("WEIGHTS…",),
        ProbeConfig,
        _probe_options,
    ),
    Command(
        "predict",
        "Classify pictures with a trained head.",
        "panendofm.linear_probe.commands:run_predict",
        ("HEAD", "IMAGES…"),
        None,
        _predict_options,
    ),
    Command(
        "time",
        "Time a head picture by picture.",
        "panendofm.linear_probe.commands:run_time",
        ("HEAD", "IMAGES…"),
        None,
        _time_options,
    ),
    Command(
        "report",
        "Report what a video shows.",
        "panendofm.linear_probe.commands:run_report_video",
        ("HEAD", "VIDEO"),
        None,
        _report_options,
    ),
    Command(
        "shortcut",
        "Answers with and without the position box.",
        "panendofm.linear_probe.commands:run_shortcut",
        ("HEAD", "DATA"),
        None,
        _shortcut_options,
    ),
)
STAGE = Stage("panendofm probe", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
