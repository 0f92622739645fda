"""panendofm atlas ROOTS…: the datasets on disk as one atlas."""

from __future__ import annotations

import argparse

from panendofm.atlas.config import NEAR_DUPLICATE_BITS
from panendofm.runtime.command_line import Command, Stage, run_stage


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="atlas.parquet", help="file to write (atlas.parquet)")
    parser.add_argument("--mappings", help="folder with mappings of further datasets (YAML)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split")
    parser.add_argument(
        "--near-duplicate-bits",
        type=int,
        default=NEAR_DUPLICATE_BITS,
        help=f"pictures whose hashes differ in at most so many of 256 bits are one content ({NEAR_DUPLICATE_BITS})",
    )


COMMANDS = [
    Command(
        "",
        "Read the datasets on disk into one atlas, and split it.",
        "panendofm.atlas.commands:run_atlas",
        ("ROOTS…",),
        options=_options,
    )
]
STAGE = Stage("panendofm atlas", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
