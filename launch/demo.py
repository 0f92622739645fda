"""The whole pipeline on the synthetic corpus: each stage as its own process, by the command that a user would type."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from runtime.console import duration, say
from runtime.errors import UserError
from runtime.files import make_directory


@dataclass(frozen=True)
class Step:
    """One command of the demo and the file or folder that it leaves behind."""

    title: str
    words: tuple[str, ...]
    result: Path

    @property
    def command(self) -> str:
        return "python -m " + shlex.join(self.words)


def demo_steps(folder: Path) -> list[Step]:
    corpus = folder / "corpus"
    return [
        Step("draw a corpus", ("data_pipeline", "synthesize", str(corpus)), corpus),
    ]


def run_demo(folder: Path) -> None:
    """Run the steps in order. Each stage is safe to repeat, so a demo that was interrupted goes on where it stopped."""
    logs = make_directory(folder / "logs")
    steps = demo_steps(folder)
    began = time.monotonic()
    for number, step in enumerate(steps, 1):
        say(f"[{number}/{len(steps)}] {step.title}: {step.command}")
        step_began = time.monotonic()
        run_step(step, logs / f"{number}_{step.words[0]}.log")
        say(f"      done in {duration(time.monotonic() - step_began)}: {step.result}")
    say(f"The demo took {duration(time.monotonic() - began)}.")


def run_step(step: Step, log: Path) -> None:
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            [sys.executable, "-m", *step.words], stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    if code != 0:
        last_line = next((line for line in reversed(log.read_text(encoding="utf-8").splitlines()) if line.strip()), "")
        raise UserError(f"'{step.command}' ended with exit code {code} ({last_line.strip()}); all it said is in {log}.")
