"""`panendofm compress` and `panendofm benchmark`."""

from __future__ import annotations

from panendofm.deployment import config as keys
from panendofm.runtime.command_line import Command, Stage, run_stage

_COMMANDS = "panendofm.deployment.commands"
COMMANDS = [
    Command(
        "compress",
        "a release with fp16 and int8 graphs, and what they cost in quality",
        f"{_COMMANDS}:run_compress",
        ("RELEASE",),
        keys.CompressConfig,
    ),
    Command(
        "benchmark",
        "how fast a release is here: images/s, latency, memory, or frames/s of a video",
        f"{_COMMANDS}:run_benchmark_command",
        ("RELEASE",),
        keys.BenchmarkConfig,
    ),
]
STAGE = Stage("panendofm deployment", COMMANDS, extra="export")

if __name__ == "__main__":
    run_stage(STAGE)
