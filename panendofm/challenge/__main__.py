"""panendofm challenge: score, rank and time submissions; check data; merge annotations; the regulator's record."""

from __future__ import annotations

import argparse

from panendofm.runtime.command_line import Command, Stage, run_stage


def _score_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--truth", required=True, help="the gold standard, in the same form")
    add("--profile", help="whose averages, such as medico2018, coco or endotect (the task's default)")
    add("--out", default="challenge_results", help="folder for the results (challenge_results)")
    add("--team", help="who answers (from PREFIX_TEAM_TASK_RUN.csv)")
    add("--task", help="which task it is for: classification, efficiency, hardware (from the file's name)")
    add("--run", help="which of the team's runs (from the file's name)")
    add("--classes", help="all classes, parted by commas (those of the truth)")
    add("--separator", default=",", help="what parts the columns (,)")
    add("--time-unit", choices=["ms", "s"], help="unit of the times in a file without a header")
    add("--missing", choices=["refuse", "wrong"], default="refuse", help="what a missing answer is (refuse)")
    add("--match", choices=["stem", "path"], default="stem", help="compare names without folder and ending, or paths")
    add("--images", help="folder of the pictures, for the page's errors")
    add("--without", help="file of names: give the score without these pictures as well (near twins in training)")
    add("--timing", help="FILE.timing.json of 'challenge time'")
    add("--figure", help="print this figure only; refused when it does not fit the task")
    add("--confidence", type=float, default=0.5, help="boxes from this confidence on are shown to the doctor (0.5)")
    add("--fps", type=float, help="frames per second of the videos, for seconds and alarms per minute")
    add("--unseen", help="centre that was not in training: its gap to the others")
    add("--mm-per-px", type=float, help="scale of the pictures; without it sizes are in pixels")
    add("--training-pictures", type=int, help="decides ties")
    add("--organiser", action="store_true", help="shown without a rank")
    add("--samples", type=int, default=1000, help="bootstrap draws over groups (1000)")
    add("--seed", type=int, default=0, help="seed of the draws (0)")


def _rank_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--task", choices=["classification", "efficiency", "hardware", "clinical"], default="classification")
    add("--reading", choices=["A", "B"], default="A", help="efficiency: A fastest above 85%%, B best above 45 a second")
    add("--published", help="show a published table beside, such as medico2018_efficiency")
    add("--out", help="folder for ranking.json, ranking.csv and the page")


def _time_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--images", required=True, help="folder of test pictures; its place in the command is {images}")
    add("--out", default="submission.csv", help="where the program's lines go (submission.csv)")
    add("--repeats", type=int, default=1, help="how often it is run; the quickest counts (1)")
    add("--time-unit", choices=["ms", "s"], help="unit of the times in lines without a header")
    add("--timeout", type=float, help="seconds after which a run is stopped")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="data_check.json", help="report to write (data_check.json)")
    parser.add_argument("--no-text", action="store_true", help="don't read pictures for burned-in text (slow)")


def _merge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="gold", help="folder for gold.csv and gold.json (gold)")
    parser.add_argument("--date", help="date of the merging, YYYY-MM-DD (today)")


def _convert_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--from", dest="kind", required=True, choices=["voc", "coco", "yolo", "csv", "json"])
    add("--to", dest="target", choices=["csv", "json", "coco", "yolo"], default="csv")
    add("--out", required=True, help="file to write; a folder for yolo")
    add("--images", help="folder of the pictures (yolo holds shares of their size)")
    add("--classes", help="classes in their order, parted by commas (yolo holds numbers)")


def _record_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plan", help="plan.yaml: who, what, when, consent, ethics, retention")
    add("--shards", help="shard set that the network was trained on, for its leakage certificate")
    add("--data-check", help="report of 'challenge check-data'")
    add("--gold", help="gold.json of 'challenge merge'")
    add("--evidence", nargs="+", default=[], help="files with evidence maps of best and worst cases")
    add("--out", default="record", help="folder for record.json and record.md (record)")


COMMANDS = (
    Command(
        "score",
        "Score a file of predictions against the truth.",
        "panendofm.challenge.commands:run_score",
        ("SUBMISSION",),
        None,
        _score_options,
    ),
    Command(
        "rank",
        "Rank scored submissions, with paired tests.",
        "panendofm.challenge.commands:run_rank",
        ("RESULTS…",),
        None,
        _rank_options,
    ),
    Command(
        "time",
        "Time any program on one picture and on all.",
        "panendofm.challenge.commands:run_time",
        ("COMMAND",),
        None,
        _time_options,
    ),
    Command(
        "check-data",
        "Is a test set readable, unique and free of persons?",
        "panendofm.challenge.commands:run_check",
        ("FOLDER",),
        None,
        _check_options,
    ),
    Command(
        "merge",
        "Several doctors' annotations into gold.",
        "panendofm.challenge.commands:run_merge",
        ("LOG",),
        None,
        _merge_options,
    ),
    Command(
        "convert",
        "VOC, COCO and YOLO boxes to and from ours.",
        "panendofm.challenge.commands:run_convert",
        ("SOURCE",),
        None,
        _convert_options,
    ),
    Command(
        "record",
        "The record for regulators.",
        "panendofm.challenge.commands:run_record",
        ("RESULTS…",),
        None,
        _record_options,
    ),
)
STAGE = Stage("panendofm challenge", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
