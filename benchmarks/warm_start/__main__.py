"""`python -m benchmarks.warm_start [FOLDER]`: continue a trained backbone without its heads, in several ways.

1. A small ViT is trained on drawn patterns. 2. Its heads are thrown away. 3. It goes on with synthetic endoscopy: by
the recipe as it is, with the heads trained first, with the warm start, and with the warm start less each of its parts.
Every run is one of `python -m pretrain`; the ways differ in a few keys. kNN on both domains every few steps.

Runs that are finished are not repeated; one that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.warm_start import source_domain, target_domain
from benchmarks.warm_start.arms import ARMS, EVERY_STEPS, STEPS
from benchmarks.warm_start.findings import draw_curves, write_table
from benchmarks.warm_start.start import train_start, untrained
from pretrain.config import PretrainConfig
from runtime.config import load_config
from runtime.console import duration, say
from runtime.files import make_directory, read_json, write_json

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "recipe.yaml"
# Pictures of each class. The seeds of labelled and of unlabelled pictures differ: no picture is seen twice.
LABELLED, UNLABELLED, FOR_THE_START = 100, 80, 150


class Experiment:
    def __init__(self, folder: Path, real: Path | None) -> None:
        self.folder = make_directory(folder)
        data = make_directory(folder / "data")
        self.labelled = {
            "source": source_domain.write_labelled(data / "source_labelled", LABELLED // 2, 1),
            "target": target_domain.write_labelled(data / "target_labelled", LABELLED, 21),
        }
        self.target_shards = target_domain.write_shards(data / "target_shards", UNLABELLED, 22)
        if real is not None:
            self.labelled["real"] = real
        recipe = load_config(PretrainConfig, RECIPE, ["run.dir=none", "data.shards=none"])
        crop_px = recipe.augment.global_px
        self.start = train_start(folder / "start.safetensors", recipe.model.vit(), crop_px, FOR_THE_START, 2)

    def run(self, arm: str, seed: int) -> dict[str, Any]:
        """One way with one seed: kNN top-1 and its hits, by set and step."""
        result = self.folder / "results" / f"{arm}_{seed}.json"
        if not result.exists():
            began = time.monotonic()
            run = self.folder / "runs" / f"{arm}_{seed}"
            words = [
                f"data.shards={self.target_shards}",
                f"init.weights={self.start}",
                f"monitor.evaluation.data.path={self.labelled['target']}",
                f"monitor.every_steps={EVERY_STEPS}",
                f"schedule.total={STEPS} steps",
                f"run.seed={seed}",
                *ARMS[arm].words,
            ]
            self._pretrain(run, words)
            for name, labelled in self.labelled.items():
                if name != "target":
                    networks = sorted(str(path) for path in (run / "checkpoints").glob("step_*"))
                    self._evaluate(run, name, labelled, networks)
            write_json(make_directory(result.parent) / result.name, self._collect(run, arm, seed))
            say(f"{arm}, seed {seed}: {duration(time.monotonic() - began)}")
        return dict(read_json(result))

    def untrained_scores(self) -> dict[str, float]:
        """kNN top-1 on each set of the network before it learned anything."""
        for name, labelled in self.labelled.items():
            self._evaluate(self.folder / "untrained", name, labelled, [str(untrained(self.start))])
        found = {name: next((self.folder / "untrained" / name).glob("knn_*.json")) for name in self.labelled}
        return {name: float(read_json(path)["k"]["20"]["top1"]) for name, path in found.items()}

    def _pretrain(self, run: Path, words: list[str]) -> None:
        words = [*words, f"run.dir={run}", f"monitor.evaluation.cache={self.folder / 'cache'}"]
        self._python(run.name, "pretrain", str(RECIPE), *words)

    def _evaluate(self, run: Path, name: str, labelled: Path, networks: list[str]) -> None:
        options = ("split.leave_one_group_out=true", "ks=[5,20]", "selection.tie_breaks=[rankme]", "features.threads=1")
        places = (f"data.path={labelled}", f"cache={self.folder / 'cache'}", f"out={run / name}")
        self._python(f"{run.name}_{name}", "eval_knn", *networks, *options, *places)

    def _python(self, log: str, *words: str) -> None:
        path = make_directory(self.folder / "logs") / f"{log}.log"
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with path.open("a", encoding="utf-8") as output:
            command = [sys.executable, "-m", *words]
            done = subprocess.run(
                command, stdout=output, stderr=output, env=environment, cwd=HERE.parents[1], check=False
            )
        if done.returncode != 0:
            raise SystemExit(f"'{' '.join(words[:2])}' failed; see {path}")

    def _collect(self, run: Path, arm: str, seed: int) -> dict[str, Any]:
        curves: dict[str, list[dict[str, Any]]] = {}
        for name in self.labelled:
            folder = run / "eval" if name == "target" else run / name
            documents = [read_json(path) for path in folder.glob("knn_*.json") if path.name != "knn_selection.json"]
            curves[name] = [
                {
                    "step": d["step"],
                    "top1": d["k"]["20"]["top1"],
                    "ranks": d["k"]["20"]["rank_of_truth"],
                    "groups": d["query_groups"],
                }
                for d in sorted(documents, key=lambda d: int(d["step"]))
            ]
        went_back = run / "roll_backs.json"
        roll_backs = read_json(went_back)["roll_backs"] if went_back.exists() else []
        return {"arm": arm, "seed": seed, "curves": curves, "roll_backs": roll_backs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/warm_start"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument("--real", type=Path, help="folder of real labelled images, evaluated on as well")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="where the curves go (default: FOLDER/curves.png)")
    arguments = parser.parse_args()
    began = time.monotonic()
    experiment = Experiment(arguments.folder, arguments.real)
    # Seed by seed: after an interruption the seeds that are there are complete.
    todo = [(arm, int(seed)) for seed in arguments.seeds.split(",") for arm in arguments.arms.split(",")]
    with ThreadPoolExecutor(arguments.processes) as pool:
        results = list(pool.map(lambda job: experiment.run(*job), todo))
    draw_curves(results, arguments.picture or arguments.folder / "curves.png")
    say(write_table(results, experiment.untrained_scores(), arguments.folder / "table.md"))
    say(f"took {duration(time.monotonic() - began)}")


if __name__ == "__main__":
    main()
