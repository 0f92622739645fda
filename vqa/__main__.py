"""python -m vqa: benches of questions about endoscopy pictures."""

from __future__ import annotations

import argparse

from runtime.command_line import Command, run_stage
from vqa.bench.config import BuildConfig
from vqa.bench.items import read_bench
from vqa.client.config import RunConfig
from vqa.client.run import ask_bench


def _build(arguments: argparse.Namespace, config: BuildConfig) -> None:
    from vqa.bench.build import build_bench  # torch is slow to import, and most verbs do without

    build_bench(config)


def _ask(arguments: argparse.Namespace, config: RunConfig) -> int:
    return ask_bench(read_bench(arguments.bench), config)


COMMANDS = (
    Command("build", "Make a bench of questions from an atlas.", _build, (), BuildConfig),
    Command("ask", "Ask a model the questions of a bench.", _ask, ("BENCH",), RunConfig),
)

if __name__ == "__main__":
    run_stage("vqa", COMMANDS)
