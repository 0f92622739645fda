"""The secondary metrics of finished runs: further labeled sets, masks, and drawn patterns that tell of forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.adaptation.runs import CROP_PX, WEIGHTS, Experiment, encode_hits
from experiments.adaptation.training_sets import DEFAULT, run_stage
from experiments.warm_start import source_domain
from panendofm.backbone import load_backbone
from panendofm.linear_probe.dense.results.document import read_dense_results
from panendofm.records.documents import write_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, make_directory
from pretrain.adapt.judge import Judge

MASKS_TRAINED = ("kvasir-seg", "cvc-clinicdb")
MASKS_TESTED = ("cvc-colondb", "etis-larib")
MASKS_PX = 224
_PATTERNS_PER_CLASS = 40
_FEW_NEIGHBORS = 5  # where a class has 20 images


@dataclass(frozen=True)
class SetHits:
    """kNN on one labeled set, a digit per image."""

    name: str
    hits: str
    groups: str


@dataclass(frozen=True)
class MaskScore:
    """IoU of a linear head, with its interval."""

    name: str
    images: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class FurtherResult:
    """One network. `arm` is "released", "recentered" or the arm of a run at its best quarter."""

    arm: str
    seed: int
    sets: list[SetHits]
    masks: list[MaskScore]


class FurtherSets:
    """What the secondary metrics are measured on, made below the experiment's folder."""

    def __init__(self, experiment: Experiment) -> None:
        folder = experiment.folder / "further"
        cache = experiment.folder / "cache"
        patterns = source_domain.write_labeled(folder / "patterns", _PATTERNS_PER_CLASS, seed=1)
        self.judges = {
            "kvasir8": Judge(experiment.data / "kvasir8", CROP_PX, cache),
            "ten further classes": Judge(_ten_classes(experiment.data, folder), CROP_PX, cache, k=_FEW_NEIGHBORS),
            "drawn patterns": Judge(patterns, CROP_PX, cache, clean=False),
        }

    def hits(self, weights: Path) -> list[SetHits]:
        model = load_backbone(weights).model
        return [
            SetHits(name, encode_hits(judge.judge(model, weights.name).knn), " ".join(map(str, judge.groups)))
            for name, judge in self.judges.items()
        ]


def _ten_classes(data: Path, folder: Path) -> Path:
    """A folder per class of HyperKvasir's layout (tract / category / class)."""
    linked = folder / "ten_classes"
    if not linked.exists():
        images = sorted((data / "hyperkvasir").glob("*/*/*/*/*.jpg"))
        if not images:
            raise UserError(f"{data / 'hyperkvasir'} has no images in labeled-images/TRACT/CATEGORY/CLASS; add them.")
        with atomic_directory(linked) as partial:
            for image in images:
                (make_directory(partial / image.parent.name) / image.name).symlink_to(image.resolve())
    return linked


def further_path(results: Path, arm: str, seed: int) -> Path:
    return results / f"further_{arm}_{seed}.json"


def measure_further(experiment: Experiment, runs: Sequence[tuple[str, int, int]]) -> None:
    """Of both starts and of runs: arm, seed, and the step at which it is judged."""
    networks = {
        ("released", 0): experiment.data / WEIGHTS,
        ("recentered", 0): experiment.recentered(DEFAULT),
    }
    for arm, seed, step in runs:
        networks[arm, seed] = experiment.kept_weights(arm, DEFAULT, seed, step)
    missing = {key: path for key, path in networks.items() if not further_path(experiment.results, *key).exists()}
    if not missing:
        return
    sets = FurtherSets(experiment)
    for (arm, seed), weights in missing.items():
        found = FurtherResult(arm, seed, sets.hits(weights), _masks(experiment, weights, f"{arm}_{seed}"))
        write_document(further_path(experiment.results, arm, seed), found)


def _masks(experiment: Experiment, weights: Path, name: str) -> list[MaskScore]:
    out = experiment.folder / "masks" / name
    polyps = experiment.data / "polyps"
    trained, tested = (",".join(str(polyps / part) for part in parts) for parts in (MASKS_TRAINED, MASKS_TESTED))
    if not (out / "results.json").exists():
        run_stage(
            *("panendofm", "dense", str(weights), f"data=[{trained}]", f"test=[{tested}]", f"out={out}"),
            *("heads=[linear]", f"side_px={MASKS_PX}", "unusable=leave-out"),
        )
    (result,) = read_dense_results(out / "results.json").results
    scores = []
    for test, found in result.tests.items():
        if found.segmentation is not None:
            iou = found.segmentation.iou
            scores.append(MaskScore(test, found.images, iou.value or 0.0, iou.low or 0.0, iou.high or 0.0))
    return scores
