"""`panendofm export|embed` and `panendofm backbone verify|show|info|init|recenter`."""

from __future__ import annotations

from panendofm.backbone import command_config as keys
from panendofm.runtime.command_line import Command, Stage, run_stage

_COMMANDS = "panendofm.backbone.commands"
COMMANDS = [
    Command(
        "export",
        "write a release: formats, model card, checksums",
        f"{_COMMANDS}:run_export",
        ("NETWORK",),
        keys.ExportConfig,
    ),
    Command(
        "verify",
        "whether a release is whole and unchanged",
        f"{_COMMANDS}:run_verify",
        ("RELEASE",),
        keys.VerifyConfig,
    ),
    Command(
        "embed",
        "features of images, folders of images or .tar shards as a Parquet table",
        f"{_COMMANDS}:run_embed",
        ("NETWORK", "IMAGES…"),
        keys.EmbedConfig,
    ),
    Command(
        "show",
        "an image: original, PCA of patches, attention",
        f"{_COMMANDS}:run_show",
        ("NETWORK", "IMAGES…"),
        keys.ShowConfig,
    ),
    Command("info", "what a file or folder of weights holds", f"{_COMMANDS}:run_info", ("NETWORK",)),
    Command(
        "init",
        "an untrained backbone, e.g. vit_tiny_patch14",
        f"{_COMMANDS}:run_init",
        ("ARCHITECTURE",),
        keys.InitConfig,
    ),
    Command(
        "recenter",
        "weights whose features have mean zero over images, folders of images or .tar shards",
        f"{_COMMANDS}:run_recenter",
        ("NETWORK", "IMAGES…"),
        keys.RecenterConfig,
    ),
]
STAGE = Stage("panendofm backbone", COMMANDS, extra="export")

if __name__ == "__main__":
    run_stage(STAGE)
