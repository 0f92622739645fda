"""How long commands take to answer; and from a fresh clone to the first shard and the first training step.

    python -m benchmarks.start [--clone]

A command's time is that of its process and all below it. `--clone` clones this repository's HEAD, runs `make setup` in
it, draws the small corpus, and then runs the demo's first stages: the packages are downloaded, so it takes minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, Size

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("data-pipeline", "pretrain", "eval-knn", "launch", "probe", "vqa", "challenge")
HELP_LIMIT_SECONDS = 0.5
SETUP_LIMIT_SECONDS = 210.0


@dataclass(frozen=True)
class Used:
    """Seconds of processors and by the clock."""

    cpu: float
    wall: float


def used_by(*words: str | Path, folder: Path = ROOT) -> Used:
    began = time.monotonic()
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, [str(word) for word in words])
    return Used(usage.ru_utime + usage.ru_stime, time.monotonic() - began)


def best_cpu_seconds(*words: str, repeats: int) -> float:
    """The best: other programs of the machine only ever add to it."""
    return min(used_by(*words).cpu for _ in range(repeats))


def help_seconds(stage: str, repeats: int) -> float:
    return best_cpu_seconds(sys.executable, "-m", "panendofm", stage, "--help", repeats=repeats)


def from_a_fresh_clone(folder: Path) -> dict[str, Used]:
    """What a new user waits for, one part after the other."""
    clone = folder / "clone"
    found = {"clone": used_by("git", "clone", "--quiet", ROOT, clone)}
    found["make setup"] = used_by("make", "--silent", "setup", folder=clone)
    python = clone / ".venv" / "bin" / "python"
    corpus, shards, run = (str(folder / name) for name in ("corpus", "shards", "run"))
    guard = f"leakage.guard=[{corpus}/kvasir-dataset-v2]"
    synthesize = (python, "-m", "data_pipeline", "synthesize", corpus)
    shard = (python, "-m", "data_pipeline", "shard", "configs/corpora/synthetic.yaml", f"data_root={corpus}", guard)
    train = (python, "-m", "pretrain", "configs/pretrain/demo.yaml", f"data.shards={shards}", f"run.dir={run}")
    found["corpus"] = used_by(*synthesize, folder=clone)
    found["shards"] = used_by(*shard, f"out={shards}", folder=clone)
    found["a training of two steps"] = used_by(*train, "schedule.total=2 steps", "monitor.mode=none", folder=clone)
    return found


def figures(size: Size) -> list[Figure]:
    repeats = 3 if size == "small" else 7
    found = [
        Figure(f"panendofm {stage} --help", help_seconds(stage, repeats), "CPU s", "our limit", HELP_LIMIT_SECONDS)
        for stage in STAGES
    ]
    torch = best_cpu_seconds(sys.executable, "-c", "import torch", repeats=repeats)
    train = best_cpu_seconds(sys.executable, "-c", "import pretrain.train", repeats=repeats)
    found.append(Figure("import of the training", train, "CPU s", f"import torch, {torch:.1f} s"))
    if size == "full":
        with tempfile.TemporaryDirectory() as folder:
            parts = from_a_fresh_clone(Path(folder))
        to_shards = sum(parts[name].wall for name in ("clone", "make setup", "corpus", "shards"))
        to_step = to_shards + parts["a training of two steps"].wall
        found += [
            Figure("make setup", parts["make setup"].wall, "s", "our limit", SETUP_LIMIT_SECONDS),
            Figure("fresh clone to shards", to_shards, "s", "by the clock, packages downloaded"),
            Figure("fresh clone to the second training step", to_step, "s", "by the clock, packages downloaded"),
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clone", action="store_true")
    arguments = parser.parse_args()
    for stage in STAGES:
        print(f"{stage:14} --help {help_seconds(stage, 3):5.2f} CPU seconds")
    if arguments.clone:
        with tempfile.TemporaryDirectory() as folder:
            for name, used in from_a_fresh_clone(Path(folder)).items():
                print(f"{name:24} {used.wall:7.1f} s, {used.cpu:7.1f} CPU seconds")


if __name__ == "__main__":
    main()
