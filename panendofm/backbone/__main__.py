"""`panendofm export|publish|embed` and `panendofm backbone verify|show|info|init|recenter`."""

from __future__ import annotations

from panendofm.runtime.command_line import Stage, run_stage, verbs

_IMAGES = ("NETWORK", "IMAGES…")
COMMANDS = verbs(
    "panendofm.backbone",
    (
        "export",
        "write a release: formats, model card, checksums",
        *("release:export_release", ("NETWORK",), "command_config:ExportConfig"),
    ),
    (
        "verify",
        "whether a release is whole and unchanged",
        *("commands:run_verify", ("RELEASE",), "command_config:VerifyConfig"),
    ),
    (
        "publish",
        "bring a release to the Hugging Face hub, or say what would be sent",
        *("release:publish_release", ("RELEASE",), "command_config:PublishConfig"),
    ),
    (
        "embed",
        "features of images, folders of images or .tar shards as a Parquet table",
        *("commands:run_embed", _IMAGES, "command_config:EmbedConfig"),
    ),
    (
        "show",
        "an image: original, PCA of patches, attention",
        *("commands:run_show", _IMAGES, "command_config:ShowConfig"),
    ),
    ("info", "what a file or folder of weights holds", "commands:run_info", ("NETWORK",), ""),
    (
        "init",
        "an untrained backbone, e.g. vit_tiny_patch14",
        *("commands:run_init", ("ARCHITECTURE",), "command_config:InitConfig"),
    ),
    (
        "recenter",
        "weights whose features have mean zero over images, folders of images or .tar shards",
        *("commands:run_recenter", _IMAGES, "command_config:RecenterConfig"),
    ),
)
STAGE = Stage("panendofm backbone", COMMANDS, extra="export")

if __name__ == "__main__":
    run_stage(STAGE)
