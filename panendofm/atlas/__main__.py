"""panendofm atlas ROOTS…: the datasets on disk as one atlas."""

from __future__ import annotations

from dataclasses import replace

from panendofm.runtime.command_line import Stage, run_stage, verbs

_ATLAS, _LIST, *_OTHERS = verbs(
    "panendofm.atlas",
    (
        "",
        "Read the datasets on disk into one atlas, and split it.",
        *("commands:run_atlas", ("ROOTS…",), "config:AtlasConfig"),
    ),
    ("list", "List the datasets that are known.", "commands:run_list", (), "config:ListConfig"),
    ("codes", "Write templates of tables of codes.", "commands:run_codes", ("ROOTS…",), "config:CodesConfig"),
    ("export", "An atlas as a folder for others.", "commands:run_export", ("ATLAS",), "config:ExportConfig"),
    (
        "import",
        "Rebuild an exported atlas from the datasets here.",
        *("commands:run_import", ("RELEASE", "ROOTS…"), "config:ImportConfig"),
    ),
)
COMMANDS = (_ATLAS, replace(_LIST, show_config=False), *_OTHERS)
STAGE = Stage("panendofm atlas", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
