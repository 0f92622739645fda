"""How long scoring takes: 8,740 labels and 20,000 boxes on 5,000 images, with 1,000 bootstrap replicates, on one core.

    python -m benchmarks.challenge

Files are written and read: the time is what a user waits for, without the start of Python.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, Size
from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.score.run import score
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say, table

LIMITS = {"labels": 10.0, "boxes": 60.0}


def write_labels(folder: Path, images: int = 8740, classes: int = 16) -> tuple[Path, Path]:
    random = np.random.default_rng(0)
    truth = random.integers(0, classes, images)
    answer = np.where(random.random(images) < 0.94, truth, random.integers(0, classes, images))
    lines = [f"{i:05d}.jpg,class-{t:02d},{i // 5}" for i, t in enumerate(truth)]
    told = [
        f"{i:05d}.jpg,class-{a:02d},{random.uniform(0.2, 1):.4f},{random.uniform(5, 30):.2f}"
        for i, a in enumerate(answer)
    ]
    (folder / "truth.csv").write_text("\n".join(lines))
    (folder / "told.csv").write_text("\n".join(told))
    return folder / "truth.csv", folder / "told.csv"


def write_boxes(folder: Path, images: int = 5000, boxes: int = 20_000, classes: int = 3) -> tuple[Path, Path]:
    random = np.random.default_rng(0)
    truth, told = ["file,frame,category,x,y,w,h,group"], ["file,frame,category,confidence,x,y,w,h"]
    each = boxes // images
    for i in range(images):
        x, y, c = (int(v) for v in (*random.integers(0, 300, 2), random.integers(classes)))
        truth.append(f"p{i}.png,0,c{c},{x},{y},80,60,{i // 10}")
        for j in range(each):
            near = j == 0 and random.random() < 0.8
            moved = random.integers(-15, 16, 2) if near else random.integers(-200, 200, 2)
            kind = c if near else random.integers(classes)
            place = f"{max(0, x + moved[0])},{max(0, y + moved[1])}"
            told.append(f"p{i}.png,0,c{kind},{random.random():.4f},{place},80,60")
    (folder / "truth.csv").write_text("\n".join(truth))
    (folder / "told.csv").write_text("\n".join(told))
    return folder / "truth.csv", folder / "told.csv"


def measure() -> dict[str, tuple[float, float]]:
    """Seconds by the clock and of the processor, by what is scored."""
    found = {}
    for name, write in (("labels", write_labels), ("boxes", write_boxes)):
        with tempfile.TemporaryDirectory() as scratch:
            truth, told = write(Path(scratch))
            unit = "time_unit=ms" if name == "labels" else "time_unit=null"
            config = load_config(ScoreConfig, overrides=[f"truth={truth}", f"out={scratch}/out", unit])
            began, cpu = time.perf_counter(), time.process_time()
            score(told, config)
            took, used = time.perf_counter() - began, time.process_time() - cpu
        found[name] = (took, used)
    return found


def figures(size: Size) -> list[Figure]:
    return [
        Figure(f"{name} with 1,000 replicates", used, "CPU s", "a limit that we set ourselves", LIMITS[name])
        for name, (_, used) in measure().items()
    ]


def main() -> None:
    rows = [
        [name, f"{took:.1f}", f"{used:.1f}", f"{LIMITS[name]:.0f}", f"{used / LIMITS[name]:.2f}"]
        for name, (took, used) in measure().items()
    ]
    table("scoring with 1,000 replicates", ["what", "seconds", "CPU seconds", "limit", "CPU / limit"], rows)
    say("one core: OMP_NUM_THREADS=1")


if __name__ == "__main__":
    main()
