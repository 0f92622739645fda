"""panendofm dense: segmentation and detection on frozen features."""

from __future__ import annotations

from panendofm.linear_probe.dense.config import DenseConfig, DensePredictConfig
from panendofm.runtime.command_line import Command, Stage, run_stage

COMMANDS = [
    Command(
        "",
        "Segmentation and detection on frozen features.",
        "panendofm.linear_probe.dense.commands:run_dense_tasks",
        ("NETWORK…",),
        DenseConfig,
    ),
    Command(
        "predict",
        "Masks and boxes of images, or a video with outlines, by trained heads.",
        "panendofm.linear_probe.dense.commands:run_predict",
        ("HEAD", "[IMAGES…]"),
        DensePredictConfig,
    ),
]
STAGE = Stage("panendofm dense", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
