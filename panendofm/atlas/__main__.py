"""panendofm atlas ROOTS…: the datasets on disk as one atlas."""

from __future__ import annotations

from panendofm.atlas.config import AtlasConfig, CodesConfig, ExportConfig, ImportConfig, ListConfig
from panendofm.runtime.command_line import Command, Stage, run_stage

_COMMANDS = "panendofm.atlas.commands"
COMMANDS = [
    Command(
        "",
        "Read the datasets on disk into one atlas, and split it.",
        f"{_COMMANDS}:run_atlas",
        ("ROOTS…",),
        AtlasConfig,
    ),
    Command("list", "List the datasets that are known.", f"{_COMMANDS}:run_list", (), ListConfig, show_config=False),
    Command("codes", "Write templates of tables of codes.", f"{_COMMANDS}:run_codes", ("ROOTS…",), CodesConfig),
    Command("export", "An atlas as a folder for others.", f"{_COMMANDS}:run_export", ("ATLAS",), ExportConfig),
    Command(
        "import",
        "Rebuild an exported atlas from the datasets here.",
        f"{_COMMANDS}:run_import",
        ("RELEASE", "ROOTS…"),
        ImportConfig,
    ),
]
STAGE = Stage("panendofm atlas", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
