"""`python -m launch VERB`: the stages together, and as jobs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from launch.control import cancel_run, print_logs
from launch.demo import run_demo
from launch.status import print_status, status_of
from records.run import RunFolder
from runtime.command_line import Command, run_stage
from runtime.console import say


def demo(arguments: argparse.Namespace, config: None) -> None:
    run_demo(Path(arguments.folder or "demo_output"))


def status_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def status(arguments: argparse.Namespace, config: None) -> None:
    print_status(status_of(arguments.folder or "runs"), arguments.json)


def logs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", help="the stage whose log is wanted (default: the newest job's)")
    parser.add_argument("--lines", type=int, default=50, help="how many lines (default: 50)")
    parser.add_argument("--follow", action="store_true", help="go on until the job ends")


def logs(arguments: argparse.Namespace, config: None) -> None:
    print_logs(arguments.run, arguments.stage, arguments.lines, arguments.follow)


def cancel_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", help="only this stage's job (default: all of the run)")


def cancel(arguments: argparse.Namespace, config: None) -> None:
    cancel_run(arguments.run, arguments.stage)


def report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pictures", action="store_true", help="draw patches and neighbours first (needs the weights)")


def report(arguments: argparse.Namespace, config: None) -> None:
    from launch.report import write_report  # matplotlib takes a second to import

    if arguments.pictures:
        from launch.report.pictures import draw_pictures

        draw_pictures(RunFolder(Path(arguments.run)))
    say(f"report: {write_report(arguments.run)}")


COMMANDS = [
    Command(
        "demo",
        "The whole pipeline on a small synthetic corpus, into FOLDER (default: demo_output).",
        demo,
        ("[FOLDER]",),
    ),
    Command(
        "status", "What all runs at FOLDER (default: runs) are doing.", status, ("[FOLDER]",), options=status_options
    ),
    Command("logs", "The end of a job's log.", logs, ("RUN",), options=logs_options),
    Command("report", "One page on a run that opens without a network.", report, ("RUN",), options=report_options),
    Command("cancel", "End a run's jobs; they save first.", cancel, ("RUN",), options=cancel_options),
]


def commands_for(words: list[str]) -> list[Command]:
    """Those above answer at once; the others are imported only when they may be meant."""
    if words and words[0] in {command.name for command in COMMANDS}:
        return COMMANDS
    from launch.verbs import STAGE_COMMANDS

    return [*COMMANDS, *STAGE_COMMANDS]


if __name__ == "__main__":
    run_stage("launch", commands_for(sys.argv[1:]))
