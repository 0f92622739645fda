"""`python -m experiments.warm_start [FOLDER]`: continue a trained backbone without its heads, in several ways.

1. A small ViT is trained on drawn patterns. 2. Its heads are thrown away. 3. It goes on with synthetic endoscopy: by
the recipe as it is, with the heads trained first, with the warm start, and with the warm start less each of its parts.
Every run is one of `pretrain`; the ways differ in a few keys. kNN on both domains every few steps.

Runs that are finished are not repeated; one that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from experiments.warm_start.arms import ARMS
from experiments.warm_start.experiment import Experiment, run_in_process
from experiments.warm_start.findings import draw_curves, markdown_table
from panendofm.runtime.console import duration, say
from panendofm.runtime.files import read_json, write_text

TITLES = {"target": "target: synthetic endoscopy", "source": "source: drawn patterns", "real": "real endoscopy"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/warm_start"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument("--real", type=Path, help="folder of real labeled images, evaluated on as well")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where the curves go (default: FOLDER/curves.png)")
    arguments = parser.parse_args()
    began = time.monotonic()
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes, which do all the computing
    experiment = Experiment(arguments.folder, arguments.real)
    # Seed by seed: after an interruption the seeds that are there are complete.
    jobs = [(arm, int(seed)) for seed in arguments.seeds.split(",") for arm in arguments.arms.split(",")]
    with ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool:
        pool.submit(experiment.prepare).result()
        futures = [pool.submit(run_in_process, arguments.folder, arguments.real, *job) for job in jobs]
        results = [read_json(future.result()) for future in futures]
    titles = {name: title for name, title in TITLES.items() if name in experiment.labeled}
    draw_curves(results, ARMS, titles, arguments.picture or arguments.folder / "curves.png")
    untrained = experiment.untrained_scores()
    tables = [
        f"**{title}** (untrained {untrained[name]:.3f}, start {results[0]['curves'][name][0]['top1']:.3f})\n\n"
        + markdown_table(results, ARMS, name)
        for name, title in titles.items()
    ]
    write_text(arguments.folder / "table.md", "\n\n".join(tables) + "\n")
    say("\n\n".join(tables))
    say(f"took {duration(time.monotonic() - began)}")


if __name__ == "__main__":
    main()
