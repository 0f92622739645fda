"""`python -m experiments.adaptation VERB DATA FOLDER`: adapt real weights to real endoscopy, in several ways.

VERB is run (arms, each with some seeds), further (the secondary metrics of finished runs), release (one arm as a
release, judged beside its start and baselines) or tables (the README's tables, from results/ alone: no images are
needed). A finished run is not repeated; an interrupted one goes on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from experiments.adaptation.arms import ARMS, FRESH_SEEDS, TUNING_SEED
from experiments.adaptation.findings import chosen_step
from experiments.adaptation.processes import end_with_parent, run_in_process
from experiments.adaptation.release import make_release
from experiments.adaptation.runs import RESULTS, Experiment
from experiments.adaptation.secondary import measure_further
from experiments.adaptation.tables import update_readme
from experiments.adaptation.training_sets import DEFAULT
from launch.steps import KEEP_FREED_MEMORY
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, exit_code_of


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.verb == "tables":
        update_readme(RESULTS)
        return
    arms = arguments.arms.split(",")
    unknown = [arm for arm in arms if arm not in ARMS]
    if unknown:
        raise UserError(f"--arms {unknown[0]}: there is no such arm; choose of {', '.join(ARMS)}.")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    experiment = Experiment(arguments.data, arguments.folder, compute_type=arguments.compute_type)
    if arguments.verb == "release":
        make_release(experiment, arms[0], seeds[0])
    elif arguments.verb == "run":
        _run(experiment, arms, arguments.sets.split(","), seeds, arguments.processes)
    else:
        measure_further(experiment, [(arm, seed, chosen_step(RESULTS, arm)) for arm in arms for seed in seeds])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("tables", help="write the tables of the README anew")
    run = verbs.add_parser("run", help="train and judge")
    further = verbs.add_parser("further", help="secondary metrics of runs on the default set")
    release = verbs.add_parser("release", help="export one arm, and judge it by the commands of users")
    for verb in (run, further, release):
        verb.add_argument("data", type=Path)
        verb.add_argument("folder", type=Path)
        verb.add_argument("--arms", default=",".join(ARMS), help="of " + ", ".join(ARMS))
        verb.add_argument("--seeds", default=str(TUNING_SEED))
        verb.add_argument("--compute-type", choices=["float32", "bfloat16"], default="bfloat16")
    run.add_argument("--sets", default=DEFAULT)
    run.add_argument("--processes", type=int, default=2)
    release.set_defaults(seeds=str(FRESH_SEEDS[0]))
    return parser


def _run(experiment: Experiment, arms: list[str], sets: list[str], seeds: list[int], processes: int) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1"} | KEEP_FREED_MEMORY  # read by the processes, which do all the computing
    for training_set in sets:  # once, before the processes ask for it side by side
        experiment.start(training_set)
        experiment.prediction(training_set)
    jobs = [
        (arm, training_set, seed, None if seed == TUNING_SEED else chosen_step(RESULTS, arm))
        for training_set in sets
        for seed in seeds
        for arm in arms
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, end_with_parent) as pool:
        for future in [pool.submit(run_in_process, experiment, *job) for job in jobs]:
            result = future.result()
            say(f"{result.arm} on {result.training_set}, seed {result.seed}: {result.cpu_seconds / 60:.0f} CPU minutes")


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
