"""panendofm atlas ROOTS…: the datasets on disk as one atlas."""

from __future__ import annotations

from panendofm.atlas.config import AtlasConfig
from panendofm.runtime.command_line import Command, Stage, run_stage

COMMANDS = [
    Command(
        "",
        "Read the datasets on disk into one atlas, and split it.",
        "panendofm.atlas.commands:run_atlas",
        ("ROOTS…",),
        AtlasConfig,
    )
]
STAGE = Stage("panendofm atlas", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
