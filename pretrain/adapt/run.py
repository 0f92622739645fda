"""The way through `pretrain adapt`: guarded shards, a recentered start, training, a verdict, a release.

Every part is a command that can be typed alone, and is passed over when its result is there already.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from panendofm.backbone import LoadedBackbone, load_backbone
from panendofm.records.documents import read_document, write_document
from panendofm.records.release import ReleaseFolder
from panendofm.records.run import EXIT_REQUEUE, RunFolder
from panendofm.records.shards import ShardFolder, fingerprint
from panendofm.runtime.console import say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from pretrain.adapt.config import AdaptConfig
from pretrain.adapt.judge import Difference, Judge, Judgement
from pretrain.adapt.model_words import model_words
from pretrain.adapt.prediction import Prediction, predict_from
from pretrain.adapt.verdict import Adaptation, verdict_of

PRESENTATIONS_PER_STEP = 32  # two crops of each of the 16 images that the preset has in a batch
_PRESET = "configs/pretrain/adapt.yaml"
_GPU_PX = 224
_CPU_PATCHES = 6
# Of the whole run: two presentations of an image that is shown 16 times, then one and a half.
_HEADS_SHARE = 1 / 8
_RAMP_SHARE = 3 / 32


@dataclass(frozen=True)
class AdaptFolder:
    """What an adaptation leaves below `out`."""

    path: Path

    @property
    def shards(self) -> Path:
        return self.path / "shards"

    @property
    def start(self) -> Path:
        return self.path / "start.safetensors"

    @property
    def prediction(self) -> Path:
        return self.path / "prediction.json"

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.path / "run")

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def result(self) -> Path:
        return self.path / "adaptation.json"

    @property
    def release(self) -> ReleaseFolder:
        return ReleaseFolder(self.path / "release")


def adapt(config: AdaptConfig) -> None:
    """Make the weights better for the images, or say that they are not."""
    labeled = _labeled_folder(config.labeled)
    if not Path(config.images).is_dir():
        raise UserError(f"images={config.images} is no folder; name one with images, or a shard set.")
    released = load_backbone(config.weights)
    crop_px = _crop_px(config, released)
    folder = AdaptFolder(make_directory(config.folder))
    judge = Judge(Path(config.labeled), crop_px, folder.cache)
    shards = _guarded_shards(config, folder, labeled, judge)
    images = shards.read_manifest().frames
    say(_predict(folder, released, shards, crop_px).sentence())
    if not folder.start.exists():
        _run_command(
            *("panendofm", "backbone", "recenter", config.weights, str(shards.path)),
            *(f"out={folder.start}", f"crop_px={crop_px}"),
        )
    steps = -(-config.presentations_for(images) // PRESENTATIONS_PER_STEP)
    _run_command("pretrain", _PRESET, *_training_words(config, folder, released, shards, crop_px, steps))
    found = _judge(folder, judge, images, steps)
    _show(found)
    if found.outcome == "better":
        _export(config, folder, steps)
    say(found.sentence(config.weights, folder.release.path))


def _labeled_folder(labeled: str) -> Path:
    """The folder whose images must not be trained on."""
    path = Path(labeled)
    if not path.exists():
        raise UserError(f"labeled={labeled} does not exist; name a folder with one folder of images per class.")
    if path.is_dir() and any(path.glob("*.tar")):
        raise UserError(
            f"labeled={labeled} holds shards, whose images the guard can't compare with; unpack them into a folder per "
            "class."
        )
    return path.absolute() if path.is_dir() else path.absolute().parent


def _crop_px(config: AdaptConfig, released: LoadedBackbone) -> int:
    patch_px = released.model.config.patch_px
    if config.image_px is None:
        on_gpu = config.device != "cpu" and torch.cuda.is_available()
        return _GPU_PX // patch_px * patch_px if on_gpu else _CPU_PATCHES * patch_px
    if config.image_px % patch_px:
        raise UserError(f"image_px={config.image_px} is not a multiple of the patches' {patch_px} pixels; change it.")
    return config.image_px


def _guarded_shards(config: AdaptConfig, folder: AdaptFolder, labeled: Path, judge: Judge) -> ShardFolder:
    """The images as shards in which no copy of a labeled image stands."""
    given = ShardFolder(Path(config.images))
    if given.manifest.is_file():
        given.refuse_unfinished()
        _refuse_unguarded(given, judge)
        return given
    shards = ShardFolder(folder.shards)
    if not shards.checksums.exists():
        corpus = "corpora.images"
        _run_command(
            *("data_pipeline", "shard", f"out={shards.path}", f"leakage.guard=[{labeled}]"),
            *(f"{corpus}.adapter=folder", f"{corpus}.root={given.path.absolute()}", f"{corpus}.license=not stated"),
        )
    return shards


def _refuse_unguarded(shards: ShardFolder, judge: Judge) -> None:
    """Shards of one's own must have been guarded against exactly these labeled images."""
    images = judge.evaluator.images
    own = fingerprint((record.sha256, record.name) for record in [*images.records, *images.skipped])
    certificate = shards.read_manifest().leakage
    if certificate is None or own not in [guarded.fingerprint for guarded in certificate.guarded_sets]:
        raise UserError(
            f"images={shards.path}: these shards were not guarded against the labeled images, so the verdict could be "
            "too good; make them again with leakage.guard, or name the folder of images instead."
        )


def _predict(folder: AdaptFolder, released: LoadedBackbone, shards: ShardFolder, crop_px: int) -> Prediction:
    if not folder.prediction.exists():
        write_document(folder.prediction, predict_from(released.model, shards, crop_px))
    return read_document(Prediction, folder.prediction, "a prediction of adapt")


def _training_words(
    config: AdaptConfig, folder: AdaptFolder, released: LoadedBackbone, shards: ShardFolder, crop_px: int, steps: int
) -> list[str]:
    return [
        f"run.dir={folder.run.path}",
        f"run.seed={config.seed}",
        f"run.device={config.device}",
        f"data.shards={shards.path}",
        f"init.weights={folder.start}",
        *model_words(released.model.config),
        f"model.trainable={config.trainable_for(released.model.config.depth)}",
        f"augment.global_px={crop_px}",
        f"schedule.total={steps} steps",
        f"warm_start.heads={int(_HEADS_SHARE * steps)} steps",
        f"warm_start.ramp={int(_RAMP_SHARE * steps)} steps",
        f"checkpoint.every_steps={max(steps // 4, 1)}",
        *config.train,
    ]


def _judge(folder: AdaptFolder, judge: Judge, images: int, steps: int) -> Adaptation:
    """The last checkpoint against the recentered start. The last one always: no choice flatters it."""
    if not folder.result.exists():
        before = judge.judge(load_backbone(folder.start).model, "the start")
        after = judge.judge(load_backbone(folder.run.checkpoint(steps)).model, "the adapted weights")
        write_document(folder.result, _compared(judge, before, after, images, steps))
    return read_document(Adaptation, folder.result, "the result of an adaptation")


def _compared(judge: Judge, before: Judgement, after: Judgement, images: int, steps: int) -> Adaptation:
    knn = judge.difference(after.knn, before.knn)
    probe = judge.difference(after.probe, before.probe)
    return Adaptation(
        outcome=verdict_of(knn, probe),
        knn=knn,
        probe=probe,
        knn_before=float(before.knn.mean()),
        knn_after=float(after.knn.mean()),
        probe_before=float(before.probe.mean()),
        probe_after=float(after.probe.mean()),
        common_share_before=before.common_share,
        common_share_after=after.common_share,
        images=images,
        labeled_images=len(judge.labels),
        presentations=steps * PRESENTATIONS_PER_STEP,
    )


def _show(found: Adaptation) -> None:
    def row(name: str, before: float, after: float, difference: Difference) -> list[str]:
        return [name, f"{before:.3f}", f"{after:.3f}", difference.shown()]

    table(
        f"{found.labeled_images:,} labeled images, {found.presentations:,} presentations of {found.images:,} images:",
        ["accuracy", "start", "adapted", "difference"],
        [
            row("kNN, k = 20", found.knn_before, found.knn_after, found.knn),
            row("linear probe", found.probe_before, found.probe_after, found.probe),
        ],
    )


def _export(config: AdaptConfig, folder: AdaptFolder, steps: int) -> None:
    if folder.release.checksums.exists():
        return
    words = [f"out={folder.release.path}", f"name={config.release_name}"]
    if config.license is not None:
        words.append(f"license={config.license}")
    _run_command("panendofm", "export", str(folder.run.checkpoint(steps)), *words)


def _run_command(*words: str) -> None:
    """One of our own commands, in a process of its own."""
    say("$ python -m " + shlex.join(words))
    done = subprocess.run([sys.executable, "-m", *words], check=False)
    if done.returncode == 2:
        raise UserError(f"'{' '.join(words[:2])}' could not go on; the sentence above says why.")
    if done.returncode == EXIT_REQUEUE:
        raise UserError(f"'{' '.join(words[:2])}' was asked to stop and has saved; run the same command to go on.")
    if done.returncode != 0:
        raise RuntimeError(f"'{' '.join(words[:2])}' ended with code {done.returncode}; its traceback stands above")
