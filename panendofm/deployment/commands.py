"""What the verbs of `panendofm.deployment` do."""

from __future__ import annotations

import argparse
from pathlib import Path

from panendofm.deployment.config import BenchmarkConfig, CompressConfig


def run_compress(arguments: argparse.Namespace, config: CompressConfig) -> None:
    from panendofm.deployment.compress import compress_release

    compress_release(Path(arguments.release), config)


def run_benchmark_command(arguments: argparse.Namespace, config: BenchmarkConfig) -> None:
    from panendofm.deployment.benchmark import run_benchmark
    from panendofm.deployment.video import time_video

    release = Path(arguments.release)
    if config.video is not None:
        time_video(release, Path(config.video), config)
    else:
        run_benchmark(release, config)
