"""`python -m experiments.adaptation DATA FOLDER STAGE`: adapt real weights to real endoscopy, in several ways.

STAGE is tune (every arm, one seed), fresh (the chosen arms, five fresh seeds), data (how much data, and which) or page
(tables and page from what is there). Runs that are finished are not repeated; one that was interrupted goes on where
it was. Results of a query each are in results/, so the page can be made without images.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from experiments.adaptation.arms import ARMS, TUNING_SEED
from experiments.adaptation.processes import end_with_parent, run_in_process
from experiments.adaptation.runs import Experiment
from experiments.adaptation.training_sets import DEFAULT
from launch.steps import KEEP_FREED_MEMORY
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, exit_code_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arms", default=",".join(ARMS), help="of " + ", ".join(ARMS))
    parser.add_argument("--sets", default=DEFAULT)
    parser.add_argument("--seeds", default=str(TUNING_SEED))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    unknown = [arm for arm in arguments.arms.split(",") if arm not in ARMS]
    if unknown:
        raise UserError(f"--arms {unknown[0]}: there is no such arm; choose of {', '.join(ARMS)}.")
    os.environ |= {"OMP_NUM_THREADS": "1"} | KEEP_FREED_MEMORY  # read by the processes, which do all the computing
    experiment = Experiment(arguments.data, arguments.folder)
    jobs = [
        (arm, training_set, int(seed))
        for training_set in arguments.sets.split(",")
        for seed in arguments.seeds.split(",")
        for arm in arguments.arms.split(",")
    ]
    for training_set in arguments.sets.split(","):  # once, before the processes ask for it side by side
        experiment.start(training_set)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context, end_with_parent) as pool:
        for future in [pool.submit(run_in_process, experiment, *job) for job in jobs]:
            result = future.result()
            say(f"{result.arm} on {result.training_set}, seed {result.seed}: {result.cpu_seconds / 60:.0f} CPU minutes")


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
