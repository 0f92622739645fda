"""The driver killed with SIGKILL at random moments, and started again: the same bytes at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pipeline_runs import KEY, WITHOUT_TEXT, checksums_of

from panendofm.records.shards import PrivateFolder

ONE_CORPUS = """
data_root: {corpus}
decode: {{fps: 4.0}}
shards: {{size_mb: 1.0}}
corpora:
  ers: {{adapter: ers, root: ers}}
leakage: {{guard: [{corpus}/kvasir-dataset-v2/polyps]}}
"""


class Driver:
    """`python -m data_pipeline shard` as a process of its own, with its own Ray."""

    def __init__(self, config: Path, out: Path) -> None:
        self._config, self.out = config, out
        private = out.with_name(out.name + "-private")
        private.mkdir(parents=True)
        PrivateFolder(private).key.write_text(KEY)

    def start(self) -> subprocess.Popen[str]:
        words = ["-m", "data_pipeline", "shard", str(self._config), f"out={self.out}", "ray.workers=2", *WITHOUT_TEXT]
        return subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run_to_end(self) -> float:
        began = time.monotonic()
        process = self.start()
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0, output
        return time.monotonic() - began

    def run_and_kill_after(self, seconds: float) -> float | None:
        """Kill the driver alone, as an out-of-memory killer would. When it had ended before: how long it took."""
        began = time.monotonic()
        process = self.start()
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return None
        assert process.returncode == 0
        return time.monotonic() - began


def interrupt(corpus: Path, folder: Path, kills: int) -> None:
    config = folder / "one.yaml"
    config.write_text(ONE_CORPUS.format(corpus=corpus))
    reference = Driver(config, folder / "reference")
    took = reference.run_to_end()
    random_moment = random.Random(kills)
    interrupted = Driver(config, folder / "interrupted")
    killed = 0
    for _ in range(10 * kills):
        # Half of the moments lie in the part of a run in which files are written.
        begin = random_moment.choice([0.05, 0.4])
        ended_after = interrupted.run_and_kill_after(took * random_moment.uniform(begin, 1.0))
        if ended_after is None:
            killed += 1
        else:  # the machine has become faster, or little was left to do: kill earlier from now on
            took = min(took, ended_after)
        if killed == kills:
            break
        if (interrupted.out / "SHA256SUMS").exists():
            assert checksums_of(interrupted.out) == checksums_of(reference.out)
            interrupted = Driver(config, folder / f"interrupted-{killed}-{random_moment.random()}")
    assert killed == kills
    interrupted.run_to_end()
    assert checksums_of(interrupted.out) == checksums_of(reference.out)
    assert not (interrupted.out / "work").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_do_not_change_a_byte(synthetic_corpus: Path, tmp_path: Path) -> None:
    interrupt(synthetic_corpus, tmp_path, kills=20)
