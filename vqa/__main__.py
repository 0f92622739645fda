"""python -m vqa: benches of questions about endoscopy pictures."""

from __future__ import annotations

import argparse

from runtime.command_line import Command, run_stage
from vqa.bench.build import build_bench
from vqa.bench.config import BuildConfig


def _build(arguments: argparse.Namespace, config: BuildConfig) -> None:
    build_bench(config)


COMMANDS = (Command("build", "Make a bench of questions from an atlas.", _build, (), BuildConfig),)

if __name__ == "__main__":
    run_stage("vqa", COMMANDS)
