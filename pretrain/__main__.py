"""`python -m pretrain CONFIG key=value …`: the same command on one process, under torchrun and as a Slurm task."""

from __future__ import annotations

import argparse

from pretrain.config import PretrainConfig
from pretrain.plan.memory import flops_per_image
from pretrain.run.setup import memory_of
from pretrain.train import pretrain
from runtime.command_line import Command, run_stage
from runtime.console import say, table


def _train(_: argparse.Namespace, config: PretrainConfig) -> int:
    return pretrain(config)


def _estimate(arguments: argparse.Namespace, config: PretrainConfig) -> None:
    ranks, per_node = arguments.ranks, min(arguments.ranks, arguments.ranks_per_node)
    images = config.batch.group_images * config.batch.groups_per_rank(ranks)
    memory = memory_of(config, ranks, per_node)
    table(f"memory of each of {ranks} ranks with {images} images at a time", ["part", "size"], memory.rows())
    work = flops_per_image(config.model.vit(), config.objective, config.augment, config.masks)
    say(f"{work / 1e12:.3f} TFLOP per image, {work * config.batch.images / 1e15:.3f} PFLOP per step")


def _estimate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ranks", type=int, default=1, help="processes of the run")
    parser.add_argument("--ranks-per-node", type=int, default=8, help="processes of one node")


if __name__ == "__main__":
    run_stage(
        "pretrain",
        [
            Command("", "Train a backbone on shards, or go on training it.", _train, schema=PretrainConfig),
            Command(
                "estimate",
                "Say how much memory a rank would need, without training.",
                _estimate,
                schema=PretrainConfig,
                options=_estimate_options,
            ),
        ],
    )
