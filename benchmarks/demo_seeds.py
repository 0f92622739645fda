"""Does the demo's training gain on every seed? Its own commands, once per seed, on one set of shards.

    python -m benchmarks.demo_seeds [FOLDER] [--seeds 2,3,4,5,6]

FOLDER (demo_output) may be that of a `make demo`: its corpus and shards are taken, else they are made. Each seed takes
about as long as the demo's training. What is finished is not done again, and what was interrupted goes on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eval_knn import SelectionConfig, against_start, read_history
from launch.demo_steps import training_steps
from launch.steps import Step, run_step
from panendofm.records.run import RunFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import exit_code_of
from panendofm.runtime.files import make_directory

_METRIC = "top1_k20"


def row_of(run: RunFolder) -> list[str]:
    """kNN top-1 at every evaluation, and the gain of the selected checkpoint over step 0."""
    history, best = read_history(run), run.best.resolve().name
    scores = [
        f"**{e.values[_METRIC]:.3f}**" if e.checkpoint == best else f"{e.values[_METRIC]:.3f}"
        for e in sorted(history, key=lambda e: e.step or 0)
    ]
    gain = against_start(history, SelectionConfig(metric=_METRIC)).get(best)
    # None: the selected checkpoint is step 0 itself
    shown = "none" if gain is None else f"{gain.difference:+.3f} ({gain.low:.3f} to {gain.high:.3f}), {gain.verdict}"
    return [*scores, shown]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo_output"))
    parser.add_argument("--seeds", default="2,3,4,5,6")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    *made_once, training = training_steps(folder)
    logs = make_directory(folder / "seeds" / "logs")
    for step in made_once:
        run_step(step, logs / f"{step.result.name}.log")
    for seed in arguments.seeds.split(","):
        run = RunFolder(folder / "seeds" / seed)
        own = (f"run.dir={run.path}", f"run.seed={seed}")
        shared = [word for word in training.words if not word.startswith("run.dir=")]
        run_step(Step(f"seed {seed}", (*shared, *own), run.path), logs / f"{seed}.log")
        say(f"| {seed} | {' | '.join(row_of(run))} |")


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
