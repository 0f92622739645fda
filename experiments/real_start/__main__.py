"""`python -m experiments.real_start DATA [FOLDER]`: continue real weights on real endoscopy, in several ways.

DATA holds kvasir8/ (a folder of images per class), hyperkvasir/ (ten further classes), hyperkvasir-unlabeled/ and
weights/. 1. Shards of the unlabeled images, guarded by all labeled ones. 2. Runs of `pretrain` from the same
weights, which differ in a few keys (`arms.py`). 3. Curves and tables: kNN and a linear probe on kvasir8; kNN on the
further classes and on drawn patterns, a domain that must not be forgotten.

Runs that are finished are not repeated; one that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from pathlib import Path

from experiments.real_start.arms import AFTER, GROUPS, NOT_UNASKED
from experiments.real_start.experiment import (
    FURTHER,
    LABELED,
    UNLABELED,
    WEIGHTS,
    Experiment,
    end_with_parent,
    run_in_process,
)
from experiments.real_start.findings import write_findings
from experiments.real_start.release import make_release, release_steps, stage_masks
from launch.steps import KEEP_FREED_MEMORY
from panendofm.runtime.console import duration, say
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.files import read_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/real_start"))
    unasked = ",".join(name for name in GROUPS if name not in NOT_UNASKED)
    parser.add_argument("--groups", default=unasked, help=f"of {', '.join(GROUPS)} (default: {unasked})")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--set", nargs="+", default=[], metavar="key=value", help="keys of pretrain, for a rehearsal")
    arguments = parser.parse_args()
    chosen = arguments.groups.split(",")
    unknown = [name for name in chosen if name not in GROUPS]
    if unknown:
        raise UserError(f"--groups {unknown[0]}: there is no such group; choose of {', '.join(GROUPS)}.")
    missing = [name for name in (LABELED, FURTHER, UNLABELED, WEIGHTS) if not (arguments.data / name).exists()]
    if missing:
        say(f"skipped: {arguments.data} has no {', '.join(missing)}; name the folder with 'make real-start DATA=…'.")
        return
    began = time.monotonic()
    os.environ |= {"OMP_NUM_THREADS": "1"} | KEEP_FREED_MEMORY  # read by the processes, which do all the computing
    experiment = Experiment(arguments.folder, arguments.data, arguments.set)
    experiment.prepare()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context, end_with_parent) as pool:
        futures: dict[str, list[Future[Path]]] = {}
        try:
            for name in sorted(chosen, key=AFTER.__contains__):  # the others keep the processes busy meanwhile
                wait(futures.get(AFTER.get(name, ""), []))
                futures[name] = [
                    pool.submit(run_in_process, experiment, name, arm, seed)
                    for seed in GROUPS[name].seeds
                    for arm in GROUPS[name].arms
                ]
            results = {name: [read_json(future.result()) for future in futures[name]] for name in chosen}
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what has begun is finished, so it is not lost
            raise
    page = write_findings(results, arguments.folder)
    if "stages" in chosen:
        release = make_release(experiment, release_steps(experiment))
        page = write_findings(results, arguments.folder, release, stage_masks(experiment))
    say(f"wrote {page}")
    say(f"took {duration(time.monotonic() - began)}")


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
