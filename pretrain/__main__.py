"""`python -m pretrain CONFIG key=value …`: the same command on one process, under torchrun and as a Slurm task."""

from __future__ import annotations

import argparse

from panendofm.runtime.command_line import Command, Stage, run_stage
from pretrain.adapt.config import AdaptConfig
from pretrain.config import PretrainConfig


def _train(_: argparse.Namespace, config: PretrainConfig) -> int:
    from pretrain.train import pretrain

    return pretrain(config)


def _adapt(_: argparse.Namespace, config: AdaptConfig) -> None:
    from pretrain.adapt.run import adapt

    adapt(config)


def _estimate(arguments: argparse.Namespace, config: PretrainConfig) -> None:
    from pretrain.plan.requirements import print_requirements, requirements_of

    ranks_per_node = min(arguments.ranks, arguments.ranks_per_node)
    print_requirements(requirements_of(config, arguments.ranks, ranks_per_node))


def _estimate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=int, default=1, help="processes of the run")
    parser.add_argument("--ranks-per-node", type=int, default=8, help="processes of one node")


COMMANDS = [
    Command("", "Train a backbone on shards, or resume its training.", _train, schema=PretrainConfig),
    Command(
        "adapt",
        "Adapt released weights to a few hundred to 50,000 images, and say whether that made them better.",
        _adapt,
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
