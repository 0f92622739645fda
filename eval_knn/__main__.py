"""python -m eval_knn NETWORK… [CONFIG.yaml] [key=value …]"""

from __future__ import annotations

from pathlib import Path

from eval_knn.config import EvalConfig
from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.runtime.errors import UserError


def _evaluate(networks: list[str], config: EvalConfig) -> None:
    if not config.watch:
        from eval_knn.score import score_on_ranks

        score_on_ranks(networks, config)
        return
    if len(networks) > 1:
        raise UserError(f"watch=true looks at one run; leave out '{networks[1]}', or leave out watch=true.")
    from eval_knn.watch import watch

    watch(Path(networks[0]), config)


COMMANDS = [
    Command("", "Score checkpoints by their nearest neighbors on a labeled set.", _evaluate, ("NETWORK…",), EvalConfig)
]
STAGE = Stage("python -m eval_knn", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
