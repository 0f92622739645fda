"""Runs in processes of their own, with what they say in a log each."""

from __future__ import annotations

import os
import threading
import time
from contextlib import redirect_stdout

from experiments.adaptation.runs import ArmResult, Experiment
from panendofm.runtime.files import make_directory


def run_in_process(experiment: Experiment, arm: str, training_set: str, seed: int, stop_step: int | None) -> ArmResult:
    log = make_directory(experiment.folder / "logs") / f"{arm}_{training_set}_{seed}.log"
    with log.open("a", encoding="utf-8") as stream, redirect_stdout(stream):
        return experiment.run(arm, training_set, seed, stop_step)


def end_with_parent() -> None:
    """Let this worker not outlive the command: started again, both would write into the same runs."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
