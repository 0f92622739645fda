"""panendofm dense: segmentation and detection on frozen features."""

from __future__ import annotations

from panendofm.runtime.command_line import Stage, run_stage, verbs

COMMANDS = verbs(
    "panendofm.linear_probe.dense",
    (
        "",
        "Segmentation and detection on frozen features.",
        *("commands:run_dense_tasks", ("NETWORK…",), "config:DenseConfig"),
    ),
    (
        "predict",
        "Masks and boxes of images, or a video with outlines, by trained heads.",
        *("commands:run_predict", ("HEAD", "[IMAGES…]"), "config:DensePredictConfig"),
    ),
)
STAGE = Stage("panendofm dense", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
