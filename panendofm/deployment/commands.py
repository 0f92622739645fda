"""What the verbs of `panendofm.deployment` do."""

from __future__ import annotations

from pathlib import Path

from panendofm.deployment.config import BenchmarkConfig


def run_benchmark_command(release: Path, config: BenchmarkConfig) -> None:
    from panendofm.deployment.benchmark import run_benchmark
    from panendofm.deployment.video import time_video

    if config.video is not None:
        time_video(release, Path(config.video), config)
    else:
        run_benchmark(release, config)
