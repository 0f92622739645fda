"""Does it help to train on balanced data? kNN after training with and without the weights of a curation.

    python -m benchmarks.curation [FOLDER] [--seeds 0,1,2] [--steps 150]

The frames are those of the synthetic corpus of one dull scene and five rare ones, whose kinds are among the classes of
the labeled set. Both ways train the demo's network at 112 pixels, as long, on as many images, one process, one
thread; they differ in data.sampling_weights alone. What is finished is not done again; what was interrupted goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.warm_start.findings import difference
from panendofm.records.curation import CurationFolder
from panendofm.records.evaluation import KnnDocument, read_evaluations
from panendofm.records.run import RunFolder
from panendofm.records.shards import ShardFolder
from panendofm.runtime.files import make_directory

ARMS = ("as it is", "balanced")


class Experiment:
    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.corpus, self.shards = folder / "corpus", folder / "shards"
        self.labeled = self.corpus / "kvasir-dataset-v2"
        self.curation = CurationFolder(folder / "curation")

    def prepare(self) -> None:
        self._command("data_pipeline", "synthesize", self.corpus, "size=imbalanced")
        if not ShardFolder(self.shards).checksums.is_file():
            where = (f"data_root={self.corpus}", f"leakage.guard=[{self.labeled}]", f"out={self.shards}")
            self._command("data_pipeline", "shard", "configs/corpora/imbalanced.yaml", *where)
        if not self.curation.table.is_file():
            self._command("data_pipeline", "curate", self.shards, f"out={self.curation.path}")

    def scores(self, arm: str, seed: int) -> list[KnnDocument]:
        """What the run's monitor found, step by step."""
        run = RunFolder(self.folder / "runs" / f"{arm.replace(' ', '-')}-{self.steps}-{seed}")
        if not (run.path.is_dir() and [e for e in read_evaluations(run) if e.step == self.steps]):
            self._train(run, arm, seed)
        return read_evaluations(run)

    def _train(self, run: RunFolder, arm: str, seed: int) -> None:
        weights = [f"data.sampling_weights={self.curation.table}"] if arm == "balanced" else []
        self._command(
            *("pretrain", "configs/pretrain/demo.yaml", f"data.shards={self.shards}", f"run.dir={run.path}"),
            *(f"run.seed={seed}", f"schedule.total={self.steps} steps", f"schedule.warmup={self.steps // 8} steps"),
            f"schedule.teacher_temperature_warmup={self.steps // 4} steps",
            *("augment.global_px=112", "model.image_px=112"),
            *(f"checkpoint.every_steps={self.steps}", f"monitor.every_steps={self.steps}"),
            *("health.collapse_every_steps=0", f"monitor.evaluation.data.path={self.labeled}"),
            f"monitor.evaluation.cache={self.folder / 'cache'}",
            *weights,
        )

    def _command(self, *words: object) -> None:
        log = make_directory(self.folder / "logs") / "commands.log"
        with log.open("a", encoding="utf-8") as stream:
            code = subprocess.run(
                [sys.executable, "-m", *(str(word) for word in words)],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                check=False,
            ).returncode
        if code:
            raise SystemExit(f"'{' '.join(str(word) for word in words[:2])}' ended with {code}; see {log}")


def point(document: KnnDocument) -> dict[str, Any]:
    at_k = document.k["20"]
    return {"top1": at_k.top1, "ranks": at_k.rank_of_truth, "groups": document.query_groups}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/curation"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    experiment = Experiment(arguments.folder, arguments.steps)
    experiment.prepare()
    pairs = []
    for seed in (int(word) for word in arguments.seeds.split(",")):
        plain, balanced = (experiment.scores(arm, seed) for arm in ARMS)
        ends = point(balanced[-1]), point(plain[-1])
        pairs.append(ends)
        print(
            f"seed {seed}: kNN top-1 {point(plain[0])['top1']:.3f} untrained, {ends[1]['top1']:.3f} on the frames as "
            f"they are, {ends[0]['top1']:.3f} on balanced ones ({100 * (ends[0]['top1'] - ends[1]['top1']):+.1f})",
            flush=True,
        )
    means = [np.mean([pair[number]["top1"] for pair in pairs]) for number in (1, 0)]
    print(
        f"{arguments.steps} steps, {len(pairs)} seeds: {means[0]:.3f} as they are, {means[1]:.3f} balanced; difference "
        f"in points, with its 95% interval over seeds and groups of pictures: {difference(pairs)}"
    )


if __name__ == "__main__":
    main()
