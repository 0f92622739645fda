"""How long it takes to score 10,000 questions with 1,000 bootstrap replicates of whole groups, on one core.

python -m benchmarks.vqa
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, Size
from panendofm.scoring.answers.replies import LETTERS
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.vqa.bench.bench_folder import Manifest, read_bench, write_bench
from panendofm.vqa.bench.items import Item, question_id
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.commands import score_bench
from panendofm.vqa.score.config import ScoreConfig

QUESTIONS, CONTESTANTS, REPLICATES = 10_000, 3, 1000
SCENES = ("GS", "CS", "CE", "SE")
TARGET_SECONDS = 30


def made_up_bench(folder: Path, random: np.random.Generator) -> None:
    folder.mkdir()
    types = find_benchmark("endobench").questions
    items = []
    for number in range(QUESTIONS):
        question = types[number % len(types)]
        options = tuple(f"finding {n}" for n in random.choice(40, int(random.integers(2, 7)), replace=False))
        items.append(
            Item(
                id=question_id(str(number)),
                task=question.task,
                subtask=question.code,
                category=question.category,
                scene=SCENES[number % 4],
                prompt_kind=question.prompt_kind,
                kind="choice",
                sha256=f"{number:064x}",
                group=f"g{int(random.integers(0, QUESTIONS * 2 // 3))}",
                image="",
                width=640,
                height=480,
                question="Which finding does this image show?",
                options=options,
                answer=LETTERS[int(random.integers(0, len(options)))],
                entity="finding",
                dataset=f"set {number % 5}",
            )
        )
    write_bench(folder, items, Manifest("made up"))


def measure() -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made_up_bench(folder / "bench", random)
        bench = read_bench(folder / "bench")
        for contestant in range(CONTESTANTS):
            out = folder / f"m{contestant}"
            out.mkdir()
            lines = []
            for item in bench.items:
                letter = LETTERS[int(random.integers(0, len(item.options)))]
                text = f"Looking at the image, the mucosa is smooth. The correct answer is {letter}."
                lines.append(Answer(item.id, Variant(), f"m{contestant}", text).to_line())
            (out / "answers.jsonl").write_text("".join(lines), encoding="utf-8")
        began, worked = time.monotonic(), time.process_time()
        answers = [folder / f"m{n}" for n in range(CONTESTANTS)]
        score_bench(bench, answers, ScoreConfig(out=str(folder / "out"), bootstrap=BootstrapConfig(REPLICATES)))
        return time.monotonic() - began, time.process_time() - worked


def figures(size: Size) -> list[Figure]:
    what = f"{QUESTIONS:,} questions, {CONTESTANTS} contestants, page included"
    return [Figure(f"scores with {REPLICATES:,} replicates", measure()[1], "CPU s", what, TARGET_SECONDS)]


def main() -> None:
    seconds, busy = measure()
    print(
        f"{QUESTIONS} questions, {CONTESTANTS} contestants, {REPLICATES} replicates, page included: "
        f"{busy:.1f} s of one core "
        f"({busy / TARGET_SECONDS:.2f} of the {TARGET_SECONDS} s that it may take), {seconds:.1f} s on the clock"
    )


if __name__ == "__main__":
    main()
