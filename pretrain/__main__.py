"""`python -m pretrain CONFIG key=value …`: the same command on one process, under torchrun and as a Slurm task."""

from __future__ import annotations

import argparse

from panendofm.runtime.command_line import Command, Stage, run_stage
from pretrain.adapt.config import AdaptConfig
from pretrain.config import PretrainConfig


def _estimate(config: PretrainConfig, ranks: int, ranks_per_node: int) -> None:
    from pretrain.plan.requirements import print_requirements, requirements_of

    print_requirements(requirements_of(config, ranks, min(ranks, ranks_per_node)))


def _estimate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=int, default=1, help="processes of the run")
    parser.add_argument("--ranks-per-node", type=int, default=8, help="processes of one node")


COMMANDS = [
    Command(
        "", "Train a backbone on shards, or resume its training.", "pretrain.train:pretrain", schema=PretrainConfig
    ),
    Command(
        "adapt",
        "Adapt released weights to a few hundred to 50,000 images, and say whether that made them better.",
        "pretrain.adapt.run:adapt",
        schema=AdaptConfig,
    ),
    Command(
        "estimate",
        "Parameters, memory of a rank and work per image, without training; launch plan says more.",
        _estimate,
        schema=PretrainConfig,
        options=_estimate_options,
    ),
]
STAGE = Stage("python -m pretrain", COMMANDS, extra="train")

if __name__ == "__main__":
    run_stage(STAGE)
