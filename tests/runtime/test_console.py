"""What a command says: plain timed lines in a log, a bar on a terminal, silence on other ranks."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from panendofm.runtime.console import Pace, duration, rate_of

SPEAKER = """
import time
from panendofm.runtime import console
console.PROGRESS_EVERY_SECONDS = 0.0
with console.log_to("run/log.txt"):
    console.say("hello [not markup]")
    console.warn("careful")
    for _ in console.track(range(20), "working", 20, "images"):
        time.sleep(0.004)
    console.table("scores", ["name", "top-1"], [["ours", "0.51"], ["pixels", "0.4"]])
"""


def speak(folder: Path, **environment: str) -> str:
    plain = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
    command = [sys.executable, "-c", SPEAKER]
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={**plain, **environment}, timeout=60, check=True
    )
    return result.stdout


def test_lines_in_a_file_carry_the_time_and_the_log_is_the_same(tmp_path: Path) -> None:
    said = speak(tmp_path)
    assert said == (tmp_path / "run" / "log.txt").read_text()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in said.splitlines())
    assert "hello [not markup]" in said
    assert re.search(r"working: 2/20 images \(10%\), [\d.]+ images/s\n", said), "too early to say how long"
    assert re.search(r"working: 10/20 images \(50%\), [\d.]+ images/s, [\d.]+ s left", said)
    assert re.search(r"working: 20 images in [\d.]+ s", said)
    assert [line[9:] for line in said.splitlines()][-3:] == ["  name    top-1", "  ours     0.51", "  pixels    0.4"]


def test_a_log_is_continued_not_overwritten(tmp_path: Path) -> None:
    assert speak(tmp_path) + speak(tmp_path) == (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID"])
def test_other_ranks_only_warn(tmp_path: Path, variable: str) -> None:
    said = speak(tmp_path, **{variable: "3"})
    assert [line[9:] for line in said.splitlines()] == ["warning (rank 3): careful"]
    assert not (tmp_path / "run").exists()


def test_a_terminal_gets_a_bar_and_the_log_file_none_of_its_codes(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", SPEAKER]
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, cwd=tmp_path, env=environment)
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # how Linux says that the other side of a terminal has closed
            break
        if not piece:
            break
        shown += piece
    assert process.wait() == 0
    text = shown.decode()
    assert "\x1b[" in text
    assert "20/20" in text
    assert "━" in text
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "\x1b" not in log
    assert "working: 20 images" in log


def test_durations_read_well() -> None:
    spoken = [duration(s) for s in (0.04, 59.9, 60, 3599.6, 3600, 90000)]
    assert spoken == ["0.0 s", "59.9 s", "1 min 00 s", "1 h 00 min", "1 h 00 min", "1 d 01 h"]


def test_time_left_does_not_follow_a_slow_start() -> None:
    """Two minutes until the first is done, then one a second; four come at once from four workers."""
    pace, now, said = Pace(0.0), 120.0, []
    for done in range(4, 404, 4):
        pace.note(done, now)
        now += 4.0
        said.append(pace.seconds_each())
    assert said[:8] == [None] * 8, "nothing is said while nothing is known"
    assert all(each is not None and 0.8 <= each <= 1.25 for each in said[8:])


def test_time_left_follows_a_change_of_pace_and_stays_small() -> None:
    pace, now = Pace(0.0), 0.0
    for done in range(1, 20_001):
        now += 0.01 if done <= 4000 else 0.1
        pace.note(done, now)
    assert pace.seconds_each() == pytest.approx(0.1, rel=0.05)
    assert len(pace._seen) <= 512


@pytest.mark.parametrize(
    ("per_second", "said"),
    [(41.26, "41.3 slices/s"), (1.0, "1.0 slices/s"), (0.2, "12.0 slices/min"), (0.004, "14.4 slices/h")],
)
def test_a_rate_is_told_in_the_unit_in_which_it_is_a_number(per_second: float, said: str) -> None:
    assert rate_of(per_second, "slices") == said
