"""`python -m experiments.distillation DATA FOLDER`: distill real weights, train the same students alone, judge all.

Finished runs are not repeated; one that was interrupted goes on where it was. `--tables` prints what the files in
results/ say, without images.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from experiments.distillation.arms import ALONE, DISTILLED, LAST_ARM, SEEDS, STEPS, STUDENTS
from experiments.distillation.findings import tables
from experiments.distillation.runs import RESULTS, Experiment
from panendofm.runtime.console import say
from panendofm.runtime.errors import exit_code_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--compute-type", choices=["float32", "bfloat16"], default="bfloat16")
    arguments = parser.parse_args()
    if not arguments.tables:
        if arguments.folder is None:
            parser.error("name DATA and FOLDER, or --tables")
        run_all(Experiment(arguments.data, arguments.folder, compute_type=arguments.compute_type))
    print(tables(RESULTS))


def run_all(experiment: Experiment) -> None:
    torch.set_num_threads(1)
    equal_time = {student: experiment.timing(student).equal_time_step for student in STUDENTS}
    say(f"equal time: {equal_time} steps without a teacher")
    references = {"teacher": experiment.teacher, "first_blocks": experiment.first_blocks()}
    references |= {f"{student}_untrained": experiment.untrained(student) for student in STUDENTS}
    for name, path in references.items():
        experiment.result(name, path, 0)
    for student in STUDENTS:  # three seeds of one are worth more than one seed of both, should time run out
        for seed in SEEDS:
            for method in (DISTILLED, ALONE):
                steps = sorted({STEPS, equal_time[student]}) if method == ALONE else [STEPS]
                for step in steps:
                    _one(experiment, student, method, seed, step)
    for seed in SEEDS:
        _one(experiment, *LAST_ARM, seed, STEPS)


def _one(experiment: Experiment, student: str, method: str, seed: int, step: int) -> None:
    name = f"{student}_{method}_{seed}_{step}"
    if not experiment.result_path(name).exists():
        experiment.result(name, experiment.weights(student, method, seed, step), step)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
