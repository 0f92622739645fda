"""The runs: what they share, and what is measured on each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from eval_knn import Evaluator, Result
from experiments.real_start.arms import (
    BEFORE,
    EVERY_STEPS,
    FROM_RELEASED,
    GROUPS,
    GUARD_OFF,
    MIXED,
    OTHERS,
    OURS,
    PROBE,
    SOURCE,
    STARTS,
    STEPS,
    TARGET,
    WITHOUT_REGISTERS,
)
from experiments.warm_start import source_domain
from panendofm.backbone import LoadedBackbone, Preprocessing, load_backbone
from panendofm.records.evaluation import KnnDocument, encode_ranks, read_evaluations
from panendofm.records.run import RunFolder
from panendofm.records.shards import PrivateFolder, ShardFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import (
    atomic_directory,
    atomic_file,
    make_directory,
    read_json,
    sha256_of,
    write_json,
    write_text,
)
from pretrain import PretrainConfig, pretrain

RECIPE = Path(__file__).resolve().parent / "recipe.yaml"
WEIGHTS = "weights/dinov2_vits14_reg4_first8_fp16.safetensors"
LABELED, UNLABELED, FURTHER = "kvasir8", "hyperkvasir-unlabelled", "hyperkvasir"
_PATTERNS_PER_CLASS, _FOLDS = 50, 5
_FEW_NEIGHBOURS = "5"  # where a class has 20 images
# Names of samples decide their order, and with it every figure. The images are public, so their key may be too: the
# same images and weights then give the same release.
_KEY = hashlib.sha256(b"panendofm-mini").hexdigest()
_MEASURED = 2  # counts up when the same checkpoint would be given other figures


class Experiment:
    """`data`: the folder with labeled and unlabeled images and the weights. `folder`: all that is made of them.

    `words`: keys of `pretrain` that override those of every way, for a rehearsal at a smaller size.
    """

    def __init__(self, folder: Path, data: Path, words: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data = data
        self.words = words
        self.labeled, self.patterns = data / LABELED, folder / "patterns"
        self.others = folder / "others"  # images of further classes, on which nothing is tuned or chosen
        self.shards, self.start = ShardFolder(folder / "shards"), data / WEIGHTS
        self.recentered = folder / "recentred.safetensors"  # the same weights, their mean feature taken out
        self.mixed = ShardFolder(folder / "mixed")  # the same images and drawn ones
        self.drawn = folder / "corpus"

    def prepare(self) -> None:
        """Shards of the unlabeled images, guarded by all labeled ones; drawn ones; patterns of a second domain."""
        make_directory(self.folder)
        self._link_others()
        source_domain.write_labeled(self.patterns, _PATTERNS_PER_CLASS, 1)
        if not self.drawn.exists():
            _command("data_pipeline", "synthesize", str(self.drawn))
        self._shard(self.shards, {"unlabelled": (self.data / UNLABELED, "CC BY 4.0")})
        self._recenter(self.start, self.recentered)
        # Text is looked for once, in the real images as they came: drawn ones have none.
        cleaned = self._frames_of(self.shards)
        drawn = self.drawn / "kvasir-dataset-v2"
        corpora = {"unlabelled": (cleaned, "CC BY 4.0"), "drawn": (drawn, "Apache-2.0")}
        self._shard(self.mixed, corpora, "screen.text.inside=keep", "screen.text.reader=none")

    def _recenter(self, weights: Path, to: Path) -> None:
        """Over the images of the pretraining, at its size."""
        if not to.exists():
            crop_px = str(self.config([]).augment.global_px)
            _command(
                "panendofm",
                "backbone",
                "recenter",
                str(weights),
                str(self.shards.path),
                f"out={to}",
                f"crop_px={crop_px}",
            )

    def _link_others(self) -> None:
        """A folder per class of HyperKvasir's layout (tract / category / class)."""
        if not self.others.exists():
            images = sorted((self.data / FURTHER).glob("*/*/*/*/*.jpg"))
            if not images:
                raise UserError(
                    f"{self.data / FURTHER} has no images in HyperKvasir's own folders "
                    "(labeled-images/TRACT/CATEGORY/CLASS/*.jpg); arrange them so."
                )
            with atomic_directory(self.others) as partial:
                for image in images:
                    link = make_directory(partial / image.parent.name) / image.name
                    link.symlink_to(image.resolve())

    def _frames_of(self, shards: ShardFolder) -> Path:
        """The images of a shard set, as files."""
        folder = self.folder / "cleaned"
        if folder.exists():
            return folder
        with atomic_directory(folder) as partial:
            for path in sorted(shards.path.glob("*.tar")):
                with tarfile.open(path) as archive:
                    images = [member for member in archive if member.name.endswith(".jpg")]
                    archive.extractall(partial, images, filter="data")
        return folder

    def _shard(self, shards: ShardFolder, corpora: dict[str, tuple[Path, str]], *further: str) -> None:
        if not shards.manifest.exists():
            guards = [str(self.data / name) for name in (LABELED, FURTHER) if (self.data / name).is_dir()]
            private = PrivateFolder(shards.path.with_name(f"{shards.path.name}-private"))
            write_text(private.key, f"{_KEY}\n")
            words = [f"leakage.guard=[{','.join(guards)}]", f"out={shards.path}", *further]
            words.append(f"identity.private_dir={private.path}")
            for name, (root, license_) in corpora.items():
                corpus = f"corpora.{name}"
                words += [f"{corpus}.adapter=folder", f"{corpus}.root={root}", f"{corpus}.license={license_}"]
            _command("data_pipeline", "shard", *words)

    def run(self, group: str, arm: str, seed: int) -> Path:
        """One way with one seed: every evaluation, query by query, as a file."""
        result = self._result(f"{arm}_{seed}")
        make_directory(result.parent)
        run, start = self.run_folder(arm, seed), self.start_of(arm)
        own = GROUPS[group].arms[arm].words
        made_from = self._digest(arm, own, start, GROUPS[group].ends)
        if result.exists() and read_json(result).get("made_from") != made_from:
            raise UserError(
                f"{result} was made with other settings, weights or images; remove it and {run.path} to make it "
                "anew, or name another folder."
            )
        if not result.exists():
            began, cpu = time.monotonic(), time.process_time()
            words = [f"run.dir={run.path}", f"run.seed={seed}", f"init.weights={start}", GUARD_OFF]
            if MIXED in own:
                words.append(f"data.shards={self.mixed.path}")
            config = self.config([*words, *own])
            if pretrain(config) != 0:
                raise UserError(f"{run.path} was asked to stop; run the same command again to go on.")
            curves = {TARGET: [_point(document) for document in read_evaluations(run)]}
            begun = run.checkpoint(0) if _gets_new_registers(arm) else start
            curves |= self.at_the_ends(GROUPS[group].ends, begun, run, config.augment.global_px)
            before = self._before(arm, start)
            if before is not None:
                figures = self._start_figures(GROUPS[group].ends, before, config.augment.global_px)
                curves = {name: [{**figures[name], BEFORE: True}, *points] for name, points in curves.items()}
            took = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
            if arm in STARTS:
                self._keep_ends(arm, run)
            write_json(result, {"arm": arm, "seed": seed, "made_from": made_from, "curves": curves, **took})
            self._forget(run)
        return result

    def _digest(self, arm: str, own: tuple[str, ...], start: Path, ends: tuple[str, ...]) -> str:
        """Of all that a result depends on and that may have changed since it was made."""
        weights = load_backbone(start).weights_sha256
        shards = [sha256_of(s.checksums) for s in (self.shards, self.mixed)]
        recipe = RECIPE.read_text(encoding="utf-8")
        facts = [own, STEPS, EVERY_STEPS, recipe, weights, shards, self.images_sha256, ends, _MEASURED]
        if self.words:
            facts.append(list(self.words))
        if _gets_new_registers(arm):
            facts.append("compared with its own step 0")
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @cached_property
    def images_sha256(self) -> str:
        """Of all labeled images and their classes."""
        found = sorted(path for name in (LABELED, FURTHER) for path in (self.data / name).rglob("*.jpg"))
        facts = [(path.relative_to(self.data).as_posix(), sha256_of(path)) for path in found]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def _before(self, arm: str, start: Path) -> Path | None:
        """What the weights of step 0 were before they were recentered, or before new registers were put in."""
        if _gets_new_registers(arm):
            return start
        return self.start if start == self.recentered else None

    def run_folder(self, arm: str, seed: int) -> RunFolder:
        return RunFolder(self.folder / "runs" / f"{arm}_{seed}")

    def start_of(self, arm: str) -> Path:
        """The weights that a way goes on from."""
        name = STARTS.get(arm)
        if name is None:
            return self.start if arm in FROM_RELEASED else self.recentered
        if name == WITHOUT_REGISTERS:
            return self._without_registers()
        if not self._result(name).exists():  # of a run under way the best may be another one at its end
            raise UserError(f"{arm} goes on from the best checkpoint of {name}; run the group 'main' first.")
        return RunFolder(self.folder / "runs" / name).best.resolve()

    def _result(self, name: str) -> Path:
        return self.folder / "results" / f"{name}.json"

    def _without_registers(self) -> Path:
        """The released weights without their register tokens, recentered."""
        path = self.folder / f"{WITHOUT_REGISTERS}.safetensors"
        if not path.exists():
            state = load_file(self.start)
            released = self.folder / f"{WITHOUT_REGISTERS}_released.safetensors"
            with atomic_file(released) as stream:
                stream.write(save({name: tensor for name, tensor in state.items() if name != "register_tokens"}))
            self._recenter(released, path)
        return path

    def at_the_ends(
        self, wanted: tuple[str, ...], start: Path, run: RunFolder, crop_px: int
    ) -> dict[str, list[dict[str, Any]]]:
        """Of what step 0 was and of the last checkpoint: linear probe of labeled images, kNN of the other sets."""
        if not wanted:
            return {}
        step = run.steps()[0]  # the newest
        ended = self._figures(wanted, load_backbone(run.checkpoint(step)), crop_px)
        begun = self._start_figures(wanted, start, crop_px)
        return {name: [begun[name], {**ended[name], "step": step}] for name in wanted}

    def _start_figures(self, wanted: tuple[str, ...], start: Path, crop_px: int) -> dict[str, Any]:
        """What was measured of a run's end, and kNN of the labeled images; the same for all runs, so measured once."""
        network = load_backbone(start)
        digests = network.weights_sha256[:12], self.images_sha256[:12]
        name = "_".join((*digests, str(crop_px), *wanted, str(_MEASURED)))
        kept = make_directory(self.folder / "starts") / f"{name}.json"
        if not kept.exists():
            figures = self._figures((TARGET, *wanted), network, crop_px)
            write_json(kept, {name: {**point, "step": 0} for name, point in figures.items()})
        known: dict[str, Any] = read_json(kept)
        return known

    def _figures(self, wanted: tuple[str, ...], network: LoadedBackbone, crop_px: int) -> dict[str, Any]:
        found = {}
        if TARGET in wanted or PROBE in wanted:
            labeled = self.score(network, self.labeled, crop_px)
            found[TARGET] = _point(labeled.document)
            if PROBE in wanted:
                found[PROBE] = _probe(labeled, self._evaluator(self.labeled))
        if OTHERS in wanted:
            found[OTHERS] = _point(self.score(network, self.others, crop_px).document, _FEW_NEIGHBOURS)
        if SOURCE in wanted:
            found[SOURCE] = _point(self.score(network, self.patterns, crop_px).document)
        return found

    def score(self, network: LoadedBackbone, data: Path, crop_px: int) -> Result:
        """At the size of the training, which the file of the start does not know of."""
        preprocessing = Preprocessing().at_crop(crop_px)
        return self._evaluator(data).score_model(network.model, network.weights_sha256[:12], None, preprocessing)

    def _evaluator(self, data: Path) -> Evaluator:
        config = self.config([]).monitor.evaluation
        config.data.path = str(data)
        return Evaluator(config)

    def stage_weights(self, arm: str) -> tuple[Path, Path]:
        """The networks that a later stage began and ended with."""
        folder = self.folder / "stages"
        return folder / f"{arm}_begun.safetensors", folder / f"{arm}_ended.safetensors"

    def _keep_ends(self, arm: str, run: RunFolder) -> None:
        """For the masks: a stage's best checkpoint may be the one that it began with."""
        checkpoints = run.whole_checkpoints()
        for checkpoint, path in zip((checkpoints[0], checkpoints[-1]), self.stage_weights(arm), strict=True):
            with atomic_file(path) as stream:
                stream.write(save(load_backbone(checkpoint).model.state_dict()))

    def _forget(self, run: RunFolder) -> None:
        """Weights and optimizer of 40 runs would fill a disk; what is gone on from and released is kept."""
        kept = run.best.resolve().name
        for checkpoint in run.whole_checkpoints():
            if checkpoint.name != kept or run.path.name != OURS:
                shutil.rmtree(checkpoint)

    def config(self, words: list[str]) -> PretrainConfig:
        shared = [
            "run.dir=none",
            f"data.shards={self.shards.path}",
            f"schedule.total={STEPS} steps",
            f"monitor.every_steps={EVERY_STEPS}",
            f"monitor.evaluation.data.path={self.labeled}",
            f"monitor.evaluation.cache={self.folder / 'cache'}",
        ]
        return load_config(PretrainConfig, RECIPE, [*shared, *words, *self.words])


def _gets_new_registers(arm: str) -> bool:
    """Whether the network of step 0 is another than that of the weights that it began with."""
    return STARTS.get(arm) == WITHOUT_REGISTERS


def _command(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], check=False)
    if done.returncode != 0:
        raise UserError(f"'{' '.join(words[:2])}' has failed; the reason stands above.")


def end_with_parent() -> None:
    """Let this worker not outlive the command: started again, both would write into the same runs."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_in_process(experiment: Experiment, group: str, arm: str, seed: int) -> Path:
    """A run in a process of its own; what it says is in FOLDER/logs."""
    log = make_directory(experiment.folder / "logs") / f"{arm}_{seed}.log"
    with log.open("a", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
        return experiment.run(group, arm, seed)


def _probe(result: Result, evaluator: Evaluator) -> dict[str, Any]:
    """Logistic regression, five folds in which no group is on both sides: was each image's class found?

    Every feature is brought to the same scale first: a common vector, which shrinks what tells images apart, would
    otherwise make the penalty on large weights count for more.
    """
    labels, groups = evaluator.images.labels, evaluator.split.groups
    ranks = np.ones(len(labels), np.int64)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(result.features, labels, groups):
        head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000))
        head.fit(result.features[train], labels[train])
        ranks[test] = head.predict(result.features[test]) != labels[test]
    return {
        "top1": float(np.mean(ranks == 0)),
        "ranks": encode_ranks(ranks),
        "groups": " ".join(map(str, groups)),
    }


def _point(document: KnnDocument, k: str = "20") -> dict[str, Any]:
    return {
        "step": document.step,
        "top1": document.k[k].top1,
        "ranks": document.k[k].rank_of_truth,
        "values": document.values,
        "ranks_by_k": {k: figures.rank_of_truth for k, figures in document.k.items()},
        "groups": document.query_groups,
        "rankme": document.rankme,
    }
