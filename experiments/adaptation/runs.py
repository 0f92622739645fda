"""One arm on one training set with one seed: trained by `pretrain`, judged at every quarter, kept as a small file."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save

from experiments.adaptation.arms import ARMS, PRESENTATIONS_PER_STEP, Arm
from experiments.adaptation.training_sets import DEFAULT, TrainingSets, run_stage
from panendofm.backbone import load_backbone
from panendofm.records.documents import read_document, write_document
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, make_directory, sha256_of
from pretrain import PretrainConfig, pretrain
from pretrain.adapt.judge import Hits, Judge, Judgement
from pretrain.adapt.prediction import Prediction, predict_from

RECIPE = Path(__file__).resolve().parent / "recipe.yaml"
RESULTS = Path(__file__).resolve().parent / "results"
WEIGHTS = "weights/dinov2_vits14_reg4_first8_fp16.safetensors"
PRIMARY = "kvasir-v1"
CROP_PX = 84
ComputeType = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Point:
    """A checkpoint on the primary set; hits as one digit per image."""

    step: int
    presentations: int
    knn: str
    probe: str
    rankme: float
    common_share: float


@dataclass(frozen=True)
class ArmResult:
    arm: str
    training_set: str
    seed: int
    made_from: str
    points: list[Point]
    images: int
    cpu_seconds: float
    compute_type: str = "bfloat16"


@dataclass(frozen=True)
class StartResult:
    """The weights before any training, as released and recentered, and what the images are."""

    released: Point
    recentered: Point
    labels: str  # the class and the near-duplicate group of each image, with spaces between
    groups: str


class Experiment:
    """`data`: the folder with images and weights. `folder`: all that is made of them. `results`: what is kept.

    `compute_type` stays out of the digest: it changes speed and last digits, not what is asked.
    """

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
        return Judge(self.data / PRIMARY, CROP_PX, self.folder / "cache")

    def recentered(self, training_set: str) -> Path:
        """The released weights less the mean feature of the training images."""
        path = self.folder / "starts" / f"{training_set}.safetensors"
        if not path.exists():
            make_directory(path.parent)
            shards = str(self.sets.shards(training_set).path)
            run_stage(
                *("panendofm", "backbone", "recenter", str(self.data / WEIGHTS), shards),
                *(f"out={path}", f"crop_px={CROP_PX}"),
            )
        return path

    def start(self, training_set: str = DEFAULT) -> StartResult:
        path = self.results / f"start_{training_set}.json"
        if not path.exists():
            released = self.point(self.data / WEIGHTS, 0)
            recentered = self.point(self.recentered(training_set), 0)
            labels, groups = (_spaced(numbers) for numbers in (self.judge.labels, self.judge.groups))
            write_document(path, StartResult(released, recentered, labels, groups))
        return read_document(StartResult, path, "the start of the experiment")

    def result_path(self, arm: str, training_set: str, seed: int) -> Path:
        return self.results / f"{arm}_{training_set}_{seed}.json"

    def result(self, arm: str, training_set: str, seed: int) -> ArmResult:
        return read_document(ArmResult, self.result_path(arm, training_set, seed), "a result of the experiment")

    def run_folder(self, arm: str, training_set: str, seed: int) -> RunFolder:
        return RunFolder(self.folder / "runs" / f"{arm}_{training_set}_{seed}")

    def kept_weights(self, arm: str, training_set: str, seed: int, step: int) -> Path:
        """The backbone of a finished run at one of its quarters."""
        return self.folder / "weights" / f"{arm}_{training_set}_{seed}_{step}.safetensors"

    def run(self, name: str, training_set: str = DEFAULT, seed: int = 0, stop_step: int | None = None) -> ArmResult:
        """Train, or go on training, and judge; a finished one is only read.

        `stop_step`: end there, when no later quarter is asked for. The schedule stays that of a whole run.
        """
        arm = ARMS[name]
        path = self.result_path(name, training_set, seed)
        made_from = self._digest(arm, training_set)
        if path.exists():
            known = self.result(name, training_set, seed)
            if known.made_from != made_from:
                raise UserError(f"{path} was made with other settings, weights or images; remove it to make it anew.")
            return known
        began = time.process_time()
        run = self.run_folder(name, training_set, seed)
        config = self.config(arm, training_set, seed, run)
        if stop_step is not None:
            config.run.stop_at = f"{stop_step} steps"
        if pretrain(config) != 0:
            raise UserError(f"{run.path} was asked to stop; run the same command again to go on.")
        points = [self.point(checkpoint, step) for step, checkpoint in _checkpoints(run)]
        for step, checkpoint in _checkpoints(run):
            self._keep(checkpoint, self.kept_weights(name, training_set, seed, step))
        images = self.sets.shards(training_set).read_manifest().frames
        spent = time.process_time() - began
        result = ArmResult(name, training_set, seed, made_from, points, images, spent, self.compute_type)
        write_document(path, result)
        shutil.rmtree(run.checkpoints)
        return result

    def config(self, arm: Arm, training_set: str, seed: int, run: RunFolder) -> PretrainConfig:
        words = [
            f"run.dir={run.path}",
            f"run.seed={seed}",
            f"data.shards={self.sets.shards(training_set).path}",
            f"init.weights={self.recentered(training_set)}",
            f"objective.compute_type={self.compute_type}",
            f"schedule.total={arm.steps} steps",
            f"checkpoint.every_steps={arm.quarter_steps}",
            f"checkpoint.keep_every_steps={arm.quarter_steps}",
        ]
        words += self.sets.sampling_words(training_set)
        return load_config(PretrainConfig, RECIPE, [*words, *arm.words])

    def prediction(self, training_set: str) -> Prediction:
        """What the start alone says of its features of the training images, as `pretrain adapt` asks it."""
        path = prediction_path(self.results, training_set)
        if not path.exists():
            released = load_backbone(self.data / WEIGHTS).model
            write_document(path, predict_from(released, self.sets.shards(training_set), CROP_PX))
        return read_document(Prediction, path, "a prediction of the experiment")

    def point(self, weights: Path, step: int) -> Point:
        judged = self.judge.judge(load_backbone(weights).model, weights.name)
        return point_of(judged, step)

    def _keep(self, checkpoint: Path, path: Path) -> None:
        make_directory(path.parent)
        with atomic_file(path) as stream:
            stream.write(save(load_backbone(checkpoint).model.state_dict()))

    def _digest(self, arm: Arm, training_set: str) -> str:
        """Of all that a result depends on and that may have changed since it was made."""
        facts = [
            arm.words,
            arm.presentations,
            RECIPE.read_text(encoding="utf-8"),
            sha256_of(self.data / WEIGHTS),
            self.sets.images_sha256(training_set),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def prediction_path(results: Path, training_set: str) -> Path:
    return results / f"prediction_{training_set}.json"


def _checkpoints(run: RunFolder) -> list[tuple[int, Path]]:
    return [(step, run.checkpoint(step)) for step in sorted(run.steps()) if step > 0]


def point_of(judged: Judgement, step: int) -> Point:
    return Point(
        step,
        step * PRESENTATIONS_PER_STEP,
        encode_hits(judged.knn),
        encode_hits(judged.probe),
        judged.rankme,
        judged.common_share,
    )


def _spaced(numbers: NDArray[np.int64]) -> str:
    return " ".join(map(str, numbers.tolist()))


def encode_hits(hits: Hits) -> str:
    return "".join(map(str, hits.astype(int).tolist()))


def decode_hits(text: str) -> Hits:
    return np.frombuffer(text.encode(), np.uint8) == ord("1")
