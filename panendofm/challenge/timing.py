"""The verb `time`: anybody's program on one image and on all, end to end, beside the times that it reports itself."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from panendofm.challenge.config import TimeConfig, TimeUnit
from panendofm.challenge.files.submissions import ANSWER_COLUMNS
from panendofm.challenge.files.text_table import read_table
from panendofm.imaging.images import is_image
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_bytes
from panendofm.runtime.machine import processor_name

PLACEHOLDER = "{images}"
DIFFERENCE = 0.2


@dataclass(frozen=True)
class Timing:
    """End-to-end seconds: (T_N − T_1)/(N − 1), which leaves out what a program does once."""

    images: int
    seconds_one: float
    seconds_all: float
    ms_per_image: float
    reported_ms: float | None
    device: str
    format: Literal[2] = 2

    @property
    def fps(self) -> float:
        return 1000 / self.ms_per_image

    @property
    def flagged(self) -> str | None:
        """Why the program's own times are not to be believed."""
        if self.reported_ms is None or abs(self.reported_ms - self.ms_per_image) <= DIFFERENCE * self.ms_per_image:
            return None
        return (
            f"the program reports {self.reported_ms:.2f} ms an image, end to end it took {self.ms_per_image:.2f}: "
            f"more than {DIFFERENCE:.0%} apart."
        )


def read_timing(path: Path) -> Timing:
    return read_document(Timing, path, "a timing that 'challenge time' wrote")


def time_command(command: str, config: TimeConfig) -> Timing:
    """Run the command on one image and on all; its standard output is the submission."""
    images = Path(config.images)
    out = Path(config.out)
    if PLACEHOLDER not in command:
        raise UserError(f"the command has no {PLACEHOLDER}; write that where the folder of images belongs.")
    if not images.is_dir():
        raise UserError(f"images={images}: there is no such folder; name the folder of test images.")
    found = sorted(p for p in images.rglob("*") if p.is_file() and is_image(p))
    if len(found) < 2:
        raise UserError(f"images={images}: {len(found)} images are too few; two or more are needed.")
    one_seconds = []
    all_seconds = []
    output = b""
    with tempfile.TemporaryDirectory(prefix="challenge-time-") as scratch:
        single = Path(scratch) / "one"
        single.mkdir()
        shutil.copy2(found[0], single / found[0].name)
        for _ in range(config.repeats):
            one_seconds.append(_run(command, single, config.timeout_seconds)[0])
            seconds, output = _run(command, images, config.timeout_seconds)
            all_seconds.append(seconds)
    # The least of the repeats is the least disturbed by other work on the machine.
    first = min(one_seconds)
    whole = min(all_seconds)
    per_image = 1000 * (whole - first) / (len(found) - 1)
    if per_image <= 0:
        raise UserError(
            f"'{command}' took {whole:.3f} s for {len(found)} images and {first:.3f} s for one: too near to tell "
            "the time per image; give more images or more repeats."
        )
    write_bytes(out, output)
    timing = Timing(len(found), first, whole, per_image, _reported(out, config.time_unit), processor_name())
    write_document(out.with_suffix(".timing.json"), timing)
    say(
        f"{timing.images} images: {whole:.3f} s, one: {first:.3f} s; end to end {per_image:.2f} ms an image, "
        f"{timing.fps:.2f} images/s on {timing.device}"
    )
    if timing.reported_ms is not None:
        say(f"the program itself reports {timing.reported_ms:.2f} ms an image")
    if timing.flagged:
        warn(timing.flagged)
    say(f"submission: {out}; timing: {out.with_suffix('.timing.json')}")
    return timing


def _run(command: str, images: Path, timeout: float | None) -> tuple[float, bytes]:
    words = [word.replace(PLACEHOLDER, str(images)) for word in shlex.split(command)]
    if words[0] == "python":
        words[0] = sys.executable
    began = time.perf_counter()
    try:
        done = subprocess.run(words, capture_output=True, check=False, timeout=timeout)
    except FileNotFoundError:
        raise UserError(f"'{words[0]}' cannot be run: there is no such program; check the command.") from None
    except PermissionError:
        raise UserError(f"'{words[0]}' cannot be run: it is no program, or you may not run it.") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"'{command}' took more than {timeout:g} s and was stopped; raise timeout_seconds.") from None
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        last = f" ({lines[-1]})" if lines else ""
        raise UserError(f"'{command}' ended with exit code {done.returncode}{last}; correct the program.")
    if not done.stdout.strip():
        raise UserError(f"'{command}' printed nothing; it must print one submission line for each image.")
    return seconds, done.stdout


def _reported(path: Path, time_unit: TimeUnit | None) -> float | None:
    """The mean time that the program's lines state; None when they state none."""
    table = read_table(path, ",", ("file",), ANSWER_COLUMNS)
    if table.header is None:
        if len(table.rows[0].cells) != 4:
            return None
        if time_unit is None:
            raise UserError(f"{path}: its fourth column is a time without a unit; set time_unit=ms or time_unit=s.")
        table = table.named("file", "category", "confidence", f"time_{time_unit}")
    unit = next((unit for unit in ("ms", "s") if table.has(f"time_{unit}")), None)
    return float(np.mean([row.milliseconds(unit) for row in table.rows])) if unit else None
