"""The runs: what they share, and what is measured on each."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold

from backbone import Preprocessing, load_backbone
from benchmarks.real_start.arms import EVERY_STEPS, GROUPS, GUARD_OFF, STEPS
from benchmarks.warm_start import source_domain
from eval_knn import Evaluator, Result
from pretrain import PretrainConfig, pretrain
from records.evaluation import KnnDocument, encode_ranks, read_evaluations
from records.run import RunFolder
from records.shards import ShardFolder
from runtime.config import load_config
from runtime.errors import UserError
from runtime.files import make_directory, write_json

RECIPE = Path(__file__).resolve().parent / "recipe.yaml"
WEIGHTS = "weights/dinov2_vits14_reg4_first8_fp16.safetensors"
LABELLED, UNLABELLED, ALSO_GUARDED = "kvasir8", "hyperkvasir-unlabelled", "hyperkvasir"
_PATTERNS_PER_CLASS, _FOLDS = 50, 5


class Experiment:
    """`data`: the folder with labelled and unlabelled images and the weights. `folder`: all that is made of them."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data = folder, data
        self.labelled, self.patterns = data / LABELLED, folder / "patterns"
        self.shards, self.start = ShardFolder(folder / "shards"), data / WEIGHTS

    def prepare(self) -> None:
        """Shards of the unlabelled images, guarded by all labelled ones; and patterns of a second domain."""
        make_directory(self.folder)
        source_domain.write_labelled(self.patterns, _PATTERNS_PER_CLASS, 1)
        if not self.shards.manifest.exists():
            guards = [str(self.data / name) for name in (LABELLED, ALSO_GUARDED) if (self.data / name).is_dir()]
            corpus = "corpora.unlabelled"
            words = [
                *(f"{corpus}.adapter=folder", f"{corpus}.root={self.data / UNLABELLED}", f"{corpus}.licence=CC BY 4.0"),
                *(f"leakage.guard=[{','.join(guards)}]", f"out={self.shards.path}"),
            ]
            done = subprocess.run([sys.executable, "-m", "data_pipeline", "shard", *words], check=False)
            if done.returncode != 0:
                raise UserError(f"the shards of {self.data / UNLABELLED} could not be made; the reason stands above.")

    def run(self, group: str, arm: str, seed: int) -> Path:
        """One way with one seed: every evaluation, query by query, as a file."""
        result = make_directory(self.folder / "results") / f"{arm}_{seed}.json"
        if not result.exists():
            began, cpu = time.monotonic(), time.process_time()
            run = RunFolder(self.folder / "runs" / f"{arm}_{seed}")
            words = [f"run.dir={run.path}", f"run.seed={seed}", GUARD_OFF, *GROUPS[group].arms[arm].words]
            pretrain(self.config(words))
            target = [_point(document) for document in read_evaluations(run)]
            ends = self.at_the_ends(run.whole_checkpoints()[-1])
            took = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
            write_json(result, {"arm": arm, "seed": seed, "curves": {"target": target, **ends}, **took})
            self._forget(run)
        return result

    def at_the_ends(self, last: Path) -> dict[str, list[dict[str, Any]]]:
        """Linear probe of the labelled images and kNN of the patterns: of the start and of the last checkpoint."""
        found: dict[str, list[dict[str, Any]]] = {"probe": [], "source": []}
        for step, network in ((0, self.start), (STEPS, last)):
            result = self.score(network, self.labelled)
            found["probe"].append({"step": step, **_probe(result, self._evaluator(self.labelled))})
            found["source"].append({**_point(self.score(network, self.patterns).document), "step": step})
        return found

    def score(self, network: Path, data: Path) -> Result:
        """At the size of the training, which the file of the start does not know of."""
        crop = self.config([]).augment.global_px
        preprocessing = Preprocessing(resize_px=round(crop * 256 / 224), crop_px=crop)
        return self._evaluator(data).score_model(load_backbone(network).model, network.name, None, preprocessing)

    def _evaluator(self, data: Path) -> Evaluator:
        config = self.config([]).monitor.evaluation
        config.data.path = str(data)
        return Evaluator(config)

    def _forget(self, run: RunFolder) -> None:
        """Weights and optimiser of 40 runs would fill a disk; what is released is kept."""
        kept = run.best.resolve().name
        for checkpoint in run.whole_checkpoints():
            if checkpoint.name != kept or not (run.path.name.startswith(("ours_", "tuned_"))):
                shutil.rmtree(checkpoint)

    def config(self, words: list[str]) -> PretrainConfig:
        shared = [
            "run.dir=none",
            f"data.shards={self.shards.path}",
            f"init.weights={self.start}",
            f"schedule.total={STEPS} steps",
            f"monitor.every_steps={EVERY_STEPS}",
            f"monitor.evaluation.data.path={self.labelled}",
            f"monitor.evaluation.cache={self.folder / 'cache'}",
        ]
        return load_config(PretrainConfig, RECIPE, [*shared, *words])


def run_in_process(folder: Path, data: Path, group: str, arm: str, seed: int) -> Path:
    """A run in a process of its own; what it says is in FOLDER/logs."""
    log = make_directory(folder / "logs") / f"{arm}_{seed}.log"
    with log.open("a", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
        return Experiment(folder, data).run(group, arm, seed)


def _probe(result: Result, evaluator: Evaluator) -> dict[str, Any]:
    """Logistic regression, five folds in which no group is on both sides: was each picture's class found?"""
    labels, groups = evaluator.images.labels, evaluator.split.groups
    ranks = np.ones(len(labels), np.int64)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(result.features, labels, groups):
        head = LogisticRegression(C=10.0, max_iter=2000).fit(result.features[train], labels[train])
        ranks[test] = head.predict(result.features[test]) != labels[test]
    return {
        "top1": float(np.mean(ranks == 0)),
        "ranks": encode_ranks(ranks),
        "groups": " ".join(map(str, groups)),
    }


def _point(document: KnnDocument) -> dict[str, Any]:
    return {
        "step": document.step,
        "top1": document.k["20"].top1,
        "ranks": document.k["20"].rank_of_truth,
        "values": document.values,
        "ranks_by_k": {k: figures.rank_of_truth for k, figures in document.k.items()},
        "groups": document.query_groups,
        "rankme": document.rankme,
    }
