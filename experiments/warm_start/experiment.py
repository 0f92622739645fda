"""The runs: what they share, and what is measured on each."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from eval_knn import Evaluator
from experiments.warm_start import source_domain, target_domain
from experiments.warm_start.arms import ARMS, EVERY_STEPS, STEPS
from experiments.warm_start.start import train_start, untrained
from panendofm.backbone import load_backbone
from panendofm.records.documents import as_document
from panendofm.records.evaluation import KnnDocument, read_evaluations
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.files import make_directory, write_json
from pretrain import PretrainConfig, pretrain

RECIPE = Path(__file__).resolve().parent / "recipe.yaml"
# Images of each class. The seeds of labeled and of unlabeled images differ: no image is seen twice.
LABELED_SOURCE, LABELED_TARGET, UNLABELED_TARGET, FOR_THE_START = 50, 100, 80, 150


class Experiment:
    def __init__(self, folder: Path, real: Path | None) -> None:
        self.folder, data = folder, folder / "data"
        self.labeled = {"target": data / "target_labelled", "source": data / "source_labelled"}
        if real is not None:
            self.labeled["real"] = real
        self.shards, self.start = data / "target_shards", folder / "start.safetensors"

    def prepare(self) -> None:
        """Images of both domains, and the weights that every run starts from."""
        make_directory(self.folder / "data")
        source_domain.write_labeled(self.labeled["source"], LABELED_SOURCE, 1)
        target_domain.write_labeled(self.labeled["target"], LABELED_TARGET, 21)
        target_domain.write_shards(self.shards, UNLABELED_TARGET, 22)
        config = self.config([])
        train_start(self.start, config.model.vit(), config.augment.global_px, FOR_THE_START, 2)

    def run(self, arm: str, seed: int) -> Path:
        """One way with one seed: kNN top-1 and its hits, by set and step, as a file."""
        result = make_directory(self.folder / "results") / f"{arm}_{seed}.json"
        if not result.exists():
            run = RunFolder(self.folder / "runs" / f"{arm}_{seed}")
            pretrain(self.config([f"run.dir={run.path}", f"run.seed={seed}", *ARMS[arm].words]))
            curves = {"target": [_point(document) for document in read_evaluations(run)]}
            for name in set(self.labeled) - {"target"}:
                curves[name] = self._scores(name, run.whole_checkpoints())
            rollbacks = [as_document(entry) for entry in run.read_rollbacks()]
            write_json(result, {"arm": arm, "seed": seed, "curves": curves, "roll_backs": rollbacks})
        return result

    def untrained_scores(self) -> dict[str, float]:
        """kNN top-1 on each set of the network before it learned anything."""
        return {name: self._scores(name, [untrained(self.start)])[0]["top1"] for name in self.labeled}

    def _scores(self, name: str, networks: list[Path]) -> list[dict[str, Any]]:
        config = self.config([]).monitor.evaluation
        config.data.path = str(self.labeled[name])
        evaluator = Evaluator(config)
        points = []
        for path in networks:
            loaded = load_backbone(path)
            scored = evaluator.score_model(loaded.model, path.name, loaded.origin.step, loaded.preprocessing)
            points.append(_point(scored.document))
        return points

    def config(self, words: list[str]) -> PretrainConfig:
        shared = [
            "run.dir=none",
            f"data.shards={self.shards}",
            f"init.weights={self.start}",
            f"schedule.total={STEPS} steps",
            f"monitor.every_steps={EVERY_STEPS}",
            f"monitor.evaluation.data.path={self.labeled['target']}",
            f"monitor.evaluation.cache={self.folder / 'cache'}",
        ]
        return load_config(PretrainConfig, RECIPE, [*shared, *words])


def run_in_process(folder: Path, real: Path | None, arm: str, seed: int) -> Path:
    """A run in a process of its own; what it says is in FOLDER/logs."""
    log = make_directory(folder / "logs") / f"{arm}_{seed}.log"
    with log.open("a", encoding="utf-8") as stream, contextlib.redirect_stdout(stream):
        return Experiment(folder, real).run(arm, seed)


def _point(document: KnnDocument) -> dict[str, Any]:
    at_k = document.k["20"]
    return {
        "step": document.step,
        "top1": at_k.top1,
        "ranks": at_k.rank_of_truth,
        "groups": document.query_groups,
        "rankme": document.rankme,
    }
