"""python -m data_pipeline VERB …"""

from __future__ import annotations

import argparse
from typing import Any

from data_pipeline.synthesize import synthesize
from data_pipeline.synthesize.plan import SIZES
from runtime.command_line import Command, run_stage


def _synthesize_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", choices=list(SIZES), default="small", help="how much to make (default: small)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other pictures (default: 0)")


def _synthesize(arguments: argparse.Namespace, _: Any) -> None:
    synthesize(arguments.dir, arguments.size, arguments.seed)


COMMANDS = (
    Command(
        name="synthesize",
        summary="Write a synthetic corpus in the layouts of the real ones, with a truth file.",
        run=_synthesize,
        arguments=("DIR",),
        options=_synthesize_options,
    ),
)


if __name__ == "__main__":
    run_stage("data_pipeline", COMMANDS)
