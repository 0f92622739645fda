"""`panendofm compress` and `panendofm benchmark`."""

from __future__ import annotations

from panendofm.runtime.command_line import Stage, run_stage, verbs

COMMANDS = verbs(
    "panendofm.deployment",
    (
        "compress",
        "a release with fp16 and int8 graphs, and what they cost in quality",
        *("compress:compress_release", ("RELEASE",), "config:CompressConfig"),
    ),
    (
        "benchmark",
        "how fast a release is here: images/s, latency, memory, or frames/s of a video",
        *("commands:run_benchmark_command", ("RELEASE",), "config:BenchmarkConfig"),
    ),
)
STAGE = Stage("panendofm deployment", COMMANDS, extra="export")

if __name__ == "__main__":
    run_stage(STAGE)
