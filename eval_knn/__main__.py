"""python -m eval_knn CKPT… [CONFIG.yaml] [key=value …] [--watch RUN] [--pictures]"""

from __future__ import annotations

import argparse
from pathlib import Path

from eval_knn.config import EvalConfig
from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.errors import UserError


def _evaluate(arguments: argparse.Namespace, config: EvalConfig) -> None:
    if arguments.watch is not None:
        if arguments.ckpt:
            raise UserError(f"--watch looks at one run; leave out '{arguments.ckpt[0]}', or leave out --watch.")
        from eval_knn.watch import watch

        watch(Path(arguments.watch), config)
        return
    if not arguments.ckpt:
        raise UserError("python -m eval_knn: CKPT is missing; name a checkpoint, a run, a weights file, or 'pixels'.")
    from eval_knn.score import score_on_ranks

    score_on_ranks(arguments.ckpt, config, arguments.pictures)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--watch", metavar="RUN", help="evaluate each new checkpoint of a run and keep its 'best' link")
    parser.add_argument("--pictures", action="store_true", help="draw neighbours, confusion matrix, map and curve too")


COMMANDS = [
    Command(
        "",
        "Score checkpoints by their nearest neighbors on a labelled set.",
        _evaluate,
        ("[CKPT…]",),
        EvalConfig,
        _options,
    )
]
STAGE = Stage("python -m eval_knn", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
