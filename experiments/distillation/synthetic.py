"""The same question on drawn data, in minutes: is a distilled student better than one alone, for each seed?

    python -m experiments.distillation.synthetic FOLDER

The teacher has learned to describe drawn patterns (`experiments.warm_start.start`). The student has half its width and
one block less. Both ways train on 640 other patterns without labels, for equal steps, and are judged by kNN on 2,000
more.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import simplejpeg

from experiments.warm_start.shards import write_shard
from experiments.warm_start.source_domain import CLASSES, draw_image, write_labeled
from experiments.warm_start.start import train_start
from panendofm.backbone import load_backbone
from panendofm.records.documents import write_document
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.files import atomic_directory
from pretrain import PretrainConfig, pretrain
from pretrain.adapt.judge import Difference, Hits, Judge

RECIPE = Path(__file__).resolve().parents[1] / "warm_start" / "recipe.yaml"
RESULTS = Path(__file__).resolve().parent / "results"
CROP_PX = 56
STEPS = 600
SEEDS = (0, 1, 2)
TRAINED, LABELED = 64, 200  # images per class
STUDENT = ("model.width=48", "model.depth=2", "monitor.mode=none", f"schedule.total={STEPS} steps")


@dataclass(frozen=True)
class SyntheticResult:
    """kNN top-1 at k = 20 of one seed's students, and the difference with its interval over images."""

    seed: int
    teacher: float
    alone: float
    distilled: float
    difference: Difference


def run_seeds(folder: Path, seeds: tuple[int, ...] = SEEDS) -> list[SyntheticResult]:
    labeled = write_labeled(folder / "labeled", LABELED, seed=1)
    shards = _write_shards(folder / "shards", TRAINED, seed=2)
    vit = load_config(PretrainConfig, RECIPE, ["run.dir=x", "data.shards=x"]).model.vit()
    teacher = train_start(folder / "teacher.safetensors", vit, CROP_PX, 300, seed=0)
    judge = Judge(labeled, CROP_PX, folder / "cache", clean=False)

    def hits(weights: Path) -> Hits:
        return judge.judge(load_backbone(weights).model, weights.name).knn

    of_teacher = float(hits(teacher).mean())
    results = []
    for seed in seeds:
        distill = ("objective.kind=distill", f"distill.teacher={teacher}", "augment.local_crops=0")
        distilled = _trained(folder / f"distilled_{seed}", shards, seed, *distill)
        alone = _trained(folder / f"alone_{seed}", shards, seed)
        before, after = hits(alone.checkpoint(STEPS)), hits(distilled.checkpoint(STEPS))
        shares = float(before.mean()), float(after.mean())
        results.append(SyntheticResult(seed, of_teacher, *shares, judge.difference(after, before)))
        say(f"seed {seed}: {results[-1]}")
    return results


def _trained(folder: Path, shards: Path, seed: int, *words: str) -> RunFolder:
    run = RunFolder(folder)
    base = [f"run.dir={folder}", f"run.seed={seed}", f"data.shards={shards}", *STUDENT]
    base += [f"checkpoint.every_steps={STEPS // 2}", "health.collapse_every_steps=0"]
    config = load_config(PretrainConfig, RECIPE, [*base, *words])
    if pretrain(config) != 0:
        raise UserError(f"{folder} was asked to stop; run the same command again to go on.")
    return run


def _write_shards(folder: Path, per_class: int, seed: int) -> Path:
    if not folder.exists():
        with atomic_directory(folder) as made:
            images = []
            for number, kind in enumerate(CLASSES):
                for i in range(per_class):
                    image = draw_image(kind, np.random.default_rng((seed, number, i)))
                    images.append((f"{kind}{i:04d}", f"{kind}{i:04d}", simplejpeg.encode_jpeg(image, 92)))
            write_shard(made, "patterns", images)
    return folder


def main() -> None:
    for seed in SEEDS:  # one after the other: what is interrupted keeps the seeds before
        (result,) = run_seeds(Path(sys.argv[1]), (seed,))
        write_document(RESULTS / f"synthetic_{seed}.json", result)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
