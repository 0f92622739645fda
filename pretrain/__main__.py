"""`python -m pretrain CONFIG key=value …`: the same command on one process, under torchrun and as a Slurm task."""

from __future__ import annotations

import argparse

from pretrain.config import PretrainConfig
from pretrain.train import pretrain
from runtime.command_line import Command, run_stage


def _train(_: argparse.Namespace, config: PretrainConfig) -> int:
    return pretrain(config)


if __name__ == "__main__":
    run_stage(
        "pretrain", [Command("", "Train a backbone on shards, or go on training it.", _train, schema=PretrainConfig)]
    )
