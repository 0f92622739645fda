"""`python -m launch VERB`: the stages together."""

from __future__ import annotations

import argparse
from pathlib import Path

from launch.demo import run_demo
from runtime.command_line import Command, run_stage


def demo(arguments: argparse.Namespace, config: None) -> None:
    run_demo(Path(arguments.folder or "demo_output"))


COMMANDS = [
    Command(
        "demo",
        "The whole pipeline on a small synthetic corpus, into FOLDER (default: demo_output).",
        demo,
        ("[FOLDER]",),
    ),
]

if __name__ == "__main__":
    run_stage("launch", COMMANDS)
