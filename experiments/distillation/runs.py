"""One student trained one way with one seed, judged, and kept as a small file."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import save

from experiments.adaptation.runs import CROP_PX, PRIMARY, WEIGHTS, ComputeType, Point, point_of
from experiments.adaptation.training_sets import ALL, TrainingSets
from experiments.distillation.arms import ALONE, DISTILLED, FIRST_BLOCKS, METHODS, STEPS, STUDENTS, TEACHER
from panendofm.backbone import VisionTransformer, load_backbone
from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.linear_probe.dense.run import run_dense
from panendofm.records.documents import read_document, write_document
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, make_directory
from pretrain import PretrainConfig, pretrain
from pretrain.adapt.judge import Judge

RECIPE = Path(__file__).resolve().parent / "recipe.yaml"
RESULTS = Path(__file__).resolve().parent / "results"
MASK_SETS = ("polyps/kvasir-seg", "polyps/cvc-clinicdb")
MASKS_PX = 112
_TIMED_UNTIL = (10, 40)  # steps of the first leg, and of both
_CUT_BLOCKS = 4


@dataclass(frozen=True)
class Timing:
    """CPU seconds of a step, measured in turns in one process."""

    distilled: float
    alone: float

    @property
    def equal_time_step(self) -> int:
        """The step at which a run without a teacher has used the distilled run's time."""
        return max(1, round(STEPS * self.distilled / self.alone))


@dataclass(frozen=True)
class Images:
    """The labeled images: the class and the near-duplicate group of each, with spaces between."""

    labels: str
    groups: str


@dataclass(frozen=True)
class Masks:
    """IoU of each test image that shows a polyp, and its near-duplicate group; with spaces between."""

    iou: str
    groups: str


@dataclass(frozen=True)
class Result:
    """A network on the labeled images, and on those with masks. `compute_type`: of the training's matrix products."""

    point: Point
    masks: Masks
    compute_type: str = "bfloat16"


class Experiment:
    """`data`: the folder with images and weights. `folder`: all that is made of them. `results`: what is kept."""

    def __init__(
        self, data: Path, folder: Path, results: Path = RESULTS, compute_type: ComputeType = "bfloat16"
    ) -> None:
        self.data = data
        self.folder = folder
        self.results = results
        self.compute_type = compute_type
        self.sets = TrainingSets(data, folder / "sets")

    @cached_property
    def judge(self) -> Judge:
        judge = Judge(self.data / PRIMARY, CROP_PX, self.folder / "cache")
        images = Images(*(" ".join(map(str, numbers.tolist())) for numbers in (judge.labels, judge.groups)))
        write_document(self.results / "images.json", images)
        return judge

    @property
    def teacher(self) -> Path:
        return self.data / WEIGHTS

    def first_blocks(self) -> Path:
        """The teacher without its later blocks."""
        path = make_directory(self.folder / "weights") / "first_blocks.safetensors"
        if not path.exists():
            whole = load_backbone(self.teacher).model
            cut = VisionTransformer(replace(whole.config, depth=_CUT_BLOCKS))
            kept = cut.state_dict()
            cut.load_state_dict({name: tensor for name, tensor in whole.state_dict().items() if name in kept})
            _write(cut, path)
        return path

    def untrained(self, student: str) -> Path:
        path = make_directory(self.folder / "weights") / f"{student}_untrained.safetensors"
        if not path.exists():
            torch.manual_seed(1)
            words = ["run.dir=x", "data.shards=x", *STUDENTS[student]]
            _write(VisionTransformer(load_config(PretrainConfig, RECIPE, words).model.vit()), path)
        return path

    def timing(self, student: str) -> Timing:
        path = self.results / f"timing_{student}.json"
        if not path.exists():
            seconds: dict[str, list[float]] = {DISTILLED: [], ALONE: []}
            for stop in _TIMED_UNTIL:
                for method, spent in seconds.items():
                    run = RunFolder(self.folder / "runs" / f"timing_{student}_{method}")
                    began = time.process_time()
                    self._train(self.config(student, method, 0, run, stop))
                    spent.append(time.process_time() - began)
            # The second leg is longer; what both take to begin cancels.
            more = _TIMED_UNTIL[1] - 2 * _TIMED_UNTIL[0]
            per_step = {method: (spent[1] - spent[0]) / more for method, spent in seconds.items()}
            write_document(path, Timing(per_step[DISTILLED], per_step[ALONE]))
        return read_document(Timing, path, "the timing of the experiment")

    def config(self, student: str, method: str, seed: int, run: RunFolder, stop: int) -> PretrainConfig:
        # A constant schedule does not depend on its length, so one total serves all.
        words = [f"run.dir={run.path}", f"run.seed={seed}", f"run.stop_at={stop} steps", "schedule.total=100000 steps"]
        words += [f"data.shards={self.sets.shards(ALL).path}", f"checkpoint.every_steps={min(stop, 50)}"]
        words += [*STUDENTS[student], *METHODS[method], f"objective.compute_type={self.compute_type}"]
        places = {TEACHER: self.teacher, FIRST_BLOCKS: self.first_blocks()}
        for stand_in, path in places.items():
            words = [word.replace(f"={stand_in}", f"={path}") for word in words]
        return load_config(PretrainConfig, RECIPE, words)

    def weights(self, student: str, method: str, seed: int, step: int) -> Path:
        """The moving average of the student after so many steps; trained when it is first asked for."""
        name = f"{student}_{method}_{seed}"
        path = make_directory(self.folder / "weights") / f"{name}_{step}.safetensors"
        if not path.exists():
            run = RunFolder(self.folder / "runs" / name)
            self._train(self.config(student, method, seed, run, step))
            _write(load_backbone(run.checkpoint(step)).model, path)
        return path

    def result_path(self, name: str) -> Path:
        return self.results / f"{name}.json"

    def result(self, name: str, weights: Path, step: int) -> Result:
        path = self.result_path(name)
        if not path.exists():
            judged = self.judge.judge(load_backbone(weights).model, weights.name)
            write_document(path, Result(point_of(judged, step), self._masks(weights), self.compute_type))
        return read_document(Result, path, "a result of the experiment")

    def _masks(self, weights: Path) -> Masks:
        folder = self.folder / "masks"
        words = [f"data=[{','.join(str(self.data / name) for name in MASK_SETS)}]", f"out={folder}", "heads=[linear]"]
        words += [f"side_px={MASKS_PX}", "bootstrap.replicates=1", "device=cpu", f"cache={folder / 'features'}"]
        make_directory(folder)
        benchmark = run_dense([str(weights)], load_config(DenseConfig, None, words))
        (outcome,) = benchmark.outcomes
        found = [image for images in outcome.images.values() for image in images if image.has_finding]
        groups = [int(benchmark.plan.groups[image.row]) for image in found]
        return Masks(" ".join(f"{image.iou:.4f}" for image in found), " ".join(map(str, groups)))

    @staticmethod
    def _train(config: PretrainConfig) -> None:
        if pretrain(config) != 0:
            raise UserError(f"{config.run.dir} was asked to stop; run the same command again to go on.")


def _write(model: VisionTransformer, path: Path) -> None:
    with atomic_file(path) as stream:
        stream.write(save(model.state_dict()))
